# ruff: noqa: F811 (fixtures are imported by name)
"""Chains of jobs, and `lab site verify`, on a real Slurm. Needs root; `make test-cluster` runs it."""

import json
from pathlib import Path

import pytest
from slurm_jobs import (  # noqa: F401
    at_step,
    cluster,
    ended,
    job,
    kill_as_a_dying_node,
    lab,
    needs_root,
    slurm,
    submit,
    training,
    wait_until,
)

pytestmark = needs_root
SITE = """\
scheduler: slurm
paths: {runs: runs, checkpoints: null, data: [data], scratch: null, environment: .venv}
job: {gpus: 0}
launcher: srun
requeue: {method: none}
poll_s: 2
"""
CHUNKS = ["site=chain", "job.time=00:30:00", "job.chunk=00:10:00"]


@pytest.fixture(scope="module", autouse=True)
def site(lab):
    """A site that cannot requeue."""
    folder = lab.folder / "src/myproj/conf/site"
    folder.mkdir(exist_ok=True)
    (folder / "chain.yaml").write_text(SITE)


def state(job_id):
    return job(job_id)["JobState"]


def test_the_next_chunk_resumes_a_stopped_run_and_the_last_is_cancelled(lab):
    sent = submit(lab, *training(0.15, *CHUNKS))
    first, second, third = sent["chain"]
    assert "dependency" in job(third)["Reason"].lower()
    at_step(sent, 8)
    # as shortly before the time limit
    slurm("scancel", "--batch", "--signal=USR2", first)
    log = ended(sent | {"job_id": second})
    assert "stopped and saved; chunk 2 of 3 resumes it" in log
    wait_until(lambda: state(third) == "CANCELLED", "the third chunk is cancelled")
    shown = json.loads(lab("runs", "show", second, "--json"))
    assert (shown["status"], shown["n_attempts"]) == ("finished", 2)
    assert "epoch 6/6" in log
    starts = [attempt["start"] for attempt in shown["attempts"]]
    assert [start["job"]["id"] for start in starts] == [first, second]
    assert starts[0]["job"]["started_unix_s"] + 1 >= shown["job"]["submitted_unix_s"]
    assert lab("queue").strip() == "no jobs"
    lab("runs", "verify", sent["run_id"])


def test_a_chain_continues_after_a_kill_and_ends_with_a_failure_or_a_cancel(lab, tmp_path):
    again = tmp_path / "again"
    command = f"test -e {again} || {{ touch {again}; exec sleep 300; }}; exit 3"
    sent = submit(lab, *CHUNKS, "--", "bash", "-c", command)
    _, second, third = sent["chain"]
    wait_until(again.exists, "the first chunk runs")
    waiting = submit(lab, *CHUNKS, "job.extra=[--hold]", "--", "true")
    start = json.loads((Path(sent["run_dir"]) / "attempts/1/start.json").read_text())
    kill_as_a_dying_node(start)
    ended(sent | {"job_id": second}, "FAILED")
    assert state(third) == "CANCELLED"
    output = lab("cancel", waiting["chain"][0])
    assert f"cancelled job {waiting['chain'][0]} of run {waiting['run_id']}" in output
    assert {state(chunk) for chunk in waiting["chain"]} == {"CANCELLED"}


def test_each_run_of_an_array_ends_its_own_chain(lab):
    sent = submit(lab, *CHUNKS, "seed=1,2", "--", "true")
    for one in sent:
        ended(one)
    later = {chunk for one in sent for chunk in one["chain"][1:]}
    assert len(later) == 4
    queued = ("squeue", "--me", "--noheader", "--array", "--format=%i")
    wait_until(lambda: later.isdisjoint(slurm(*queued).split()), "the later chunks are over")
    for one in sent:
        assert [path.name for path in Path(one["run_dir"], "attempts").iterdir()] == ["1"]


def test_a_site_is_verified_by_a_job(lab, tmp_path):
    settings = ["site=chain", "job.nodes=2"]
    output = lab("site", "verify", *settings, XDG_CONFIG_HOME=str(tmp_path))
    assert "chain is verified: 2 nodes, CPU" in output
    assert "verified by" in lab("site", "show", "chain", XDG_CONFIG_HOME=str(tmp_path))
    script = lab("submit", "--dry-run", *settings, "--", "true", XDG_CONFIG_HOME=str(tmp_path))
    assert "# Site chain: verified by" in script


def test_the_wait_of_a_job_is_recorded(lab):
    sent = submit(lab, "site=chain", "--", "true")
    ended(sent)
    waited = json.loads((Path(sent["run_dir"]) / "summary.json").read_text())["waited"]
    assert waited["site"] == "chain"
    assert 0 <= waited["seconds"] < 300
    output = lab("submit", "site=chain", "job.time=5m", "job.extra=[--hold]", "--", "true")
    assert "typical wait: 0:" in output
    assert "typical wait: 0:" in lab("queue")
    lab("cancel", "@last")
