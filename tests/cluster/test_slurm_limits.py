# ruff: noqa: F811 (fixtures are imported by name)
"""Slurm with MaxArraySize=11: long lists are several arrays, what does not fit waits. Runs last. Needs root."""

import json
import re
import subprocess

import pytest
from slurm_jobs import FOLDER, cluster, lab, needs_root, slurm, wait_until  # noqa: F401

pytestmark = needs_root


@pytest.fixture
def small_arrays(cluster):
    """Slurm with MaxArraySize=11, and afterwards as it was."""
    file = FOLDER / "slurm.conf"
    before = file.read_text()
    try:
        configure(file, f"{before}\nMaxArraySize=11\n")
        wait_until(lambda: max_array_size() == "11", "MaxArraySize=11")
        yield
    finally:
        configure(file, before)


def configure(file, text):
    """Replaces slurm.conf whole: a node may still read it for the change before, and an empty one ends it."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
    slurm("scontrol", "reconfigure")


def max_array_size():
    match = re.search(r"MaxArraySize += (\d+)", slurm("scontrol", "show", "config"))
    return match and match[1]


def submit_held(lab, n_runs, *settings):
    """The rows of `lab submit --json` for held runs with these seeds."""
    seeds = ",".join(map(str, range(n_runs)))
    words = [
        "site=slurm",
        "trial=baseline",
        f"seed={seeds}",
        "job.gpus=0",
        "job.time=00:20:00",
        "job.extra=[--hold]",
    ]
    output = lab("submit", *words, *settings, "--json", "--", "sleep", "300")
    return json.loads(output.splitlines()[-1])


def queued():
    return slurm("squeue", "--me", "--noheader", "--array", "--format=%i").split()


def test_a_list_above_the_size_of_an_array_is_several_and_each_run_has_its_job(lab, small_arrays):
    rows = submit_held(lab, 12)
    ids = [row["job_id"] for row in rows]
    assert len({job_id.partition("_")[0] for job_id in ids}) == 2
    assert sorted(ids) == sorted(queued())
    output = lab("queue")
    assert all(row["run_id"] in output for row in rows)
    for number in {job_id.partition("_")[0] for job_id in ids}:
        assert lab("cancel", number).count("cancelled job") == 6
    wait_until(lambda: not queued(), "an empty queue")
    assert lab("queue").startswith("no jobs")


def test_what_does_not_fit_waits_here_and_is_sent_as_places_become_free(lab, small_arrays):
    rows = submit_held(lab, 5, "site.max_jobs=3")
    assert [bool(row["job_id"]) for row in rows] == [True] * 3 + [False] * 2
    assert len(queued()) == 3
    assert lab("queue").count("waiting here") == 2
    lab("cancel", rows[0]["run_id"])
    wait_until(lambda: len(queued()) == 2, "the end of one")
    assert lab("queue").count("waiting here") == 1
    ids = queued()
    assert len(ids) == 3
    assert sum(job_id.endswith("_3") for job_id in ids) == 1
    shown = json.loads(lab("runs", "show", rows[3]["run_id"], "--json"))
    assert shown["status"] == "queued"
    assert lab("cancel", rows[1]["job_id"].partition("_")[0]).count("cancelled") >= 3
    for job_id in queued():
        subprocess.run(["scancel", job_id], check=True)
    wait_until(lambda: not queued(), "an empty queue")
    assert lab("queue").startswith("no jobs")
