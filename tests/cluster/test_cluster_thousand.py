# ruff: noqa: F811 (fixtures are imported by name)
"""A thousand points on a real Slurm, which takes fewer at a time: each is sent once, none is lost.

Needs root; of `make test-release`.
"""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from slurm_jobs import cluster, lab, needs_root, slurm, wait_until  # noqa: F401

pytestmark = [*needs_root, pytest.mark.release]  # test_slurm_limits.py has the same with twelve

N_POINTS = 1000
N_JOBS = 700  # that the user may have


def queued():
    return slurm("squeue", "--me", "--noheader", "--array", "--format=%i").split()


def test_a_thousand_points_are_sent_as_a_whole_and_each_once(lab):
    points = [
        "site=slurm",
        "trial=baseline",
        f"seed=range({N_POINTS})",
        f"site.max_jobs={N_JOBS}",
        "site.max_array=301",
        "job.gpus=0",
        "job.time=00:20:00",
        "job.extra=[--hold]",
        "--no-batch",
    ]
    rows = json.loads(lab("submit", *points, "--json").splitlines()[-1])

    def jobs_of_seeds():
        """The job of each seed, as the records say; None of one that waits here."""
        records = [json.loads(Path(row["run_dir"], "run.json").read_text()) for row in rows]
        assert sorted(record["seed"] for record in records) == list(range(N_POINTS))
        return {record["seed"]: record["job"].get("id") for record in records}

    first = {seed: job for seed, job in jobs_of_seeds().items() if job}
    assert sorted(first.values()) == sorted(queued())
    arrays = Counter(job.partition("_")[0] for job in first.values())
    assert list(arrays.values()) == [250, 250, 200]
    again = lab("submit", *points)
    assert f"{N_POINTS} of {N_POINTS} runs exist already" in again
    assert len(queued()) == N_JOBS

    cancelled, _, cut = arrays
    assert lab("cancel", cancelled).count("cancelled job") == 250
    wait_until(lambda: len(queued()) == N_JOBS - 250, "the end of an array")
    assert lab("queue").count("waiting here") == 50  # of an array whose throttle is in use
    assert len(queued()) == N_JOBS
    subprocess.run(["scancel", cut], check=True)
    wait_until(lambda: len(queued()) == N_JOBS - 200, "the end of another")
    assert "waiting here" not in lab("queue")

    last = jobs_of_seeds()
    assert None not in last.values()
    assert len(set(last.values())) == N_POINTS  # a job for each
    assert last | first == last  # and none got another
    is_over = {job for job in first.values() if job.partition("_")[0] in (cancelled, cut)}
    assert set(queued()) == set(last.values()) - is_over
    subprocess.run(["scancel", "--me"], check=True)
    wait_until(lambda: not queued(), "an empty queue")
    assert lab("queue").startswith("no jobs")
    listed = {row["run_id"] for row in json.loads(lab("runs", "list", "--json"))}
    assert len(listed & {row["run_id"] for row in rows}) == N_POINTS
