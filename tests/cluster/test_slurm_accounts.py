# ruff: noqa: F811 (fixtures are imported by name)
"""A real Slurm with slurmdbd, which limits the jobs of an account: none is lost, none is doubled. Needs root."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from slurm_jobs import cluster_with, lab, needs_root, slurm, wait_until  # noqa: F401

pytestmark = needs_root
LIMITED = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
MaxArraySize=11
"""
N_POINTS = 12
N_JOBS = 3


@pytest.fixture(scope="module")
def cluster(slurm_ends):
    """Two nodes that keep accounts and enforce their limits."""
    with cluster_with(LIMITED):
        yield


@pytest.fixture
def limited(cluster):
    """limited("account", "lab", "MaxSubmitJobs", 3) sets a limit, for the time of a test."""
    limits = []

    def limited(kind, name, limit, number):
        limits.append((kind, name, limit))
        change("modify", kind, name, "set", f"{limit}={number}")

    yield limited
    for kind, name, limit in limits:
        change("modify", kind, name, "set", f"{limit}=-1")


def change(*words):
    slurm("sacctmgr", "--immediate", *words)


def queued():
    return slurm("squeue", "--me", "--noheader", "--array", "--format=%i").split()


def accounted():
    """The state of each job that slurmdbd knows of the last hour."""
    words = ["--allocations", "--noheader", "--parsable2", "--format=JobID,State"]
    known = slurm("sacct", "--starttime=now-1hours", *words)
    return dict(line.split("|") for line in known.splitlines())


def submit_list(lab, n_points, *settings, script="sleep 2"):
    words = ["site=slurm", "trial=baseline", f"seed=range({n_points})", "job.gpus=0"]
    command = ["--", "sh", "-c", script]
    output = lab("submit", *words, "job.time=00:20:00", *settings, "--json", *command)
    return json.loads(output.splitlines()[-1])


def record_of(row):
    return json.loads(Path(row["run_dir"], "run.json").read_text())


def statuses(lab, rows):
    listed = {row["run_id"]: row["status"] for row in json.loads(lab("runs", "list", "--json"))}
    return [listed[row["run_id"]] for row in rows]


def test_what_the_account_does_not_allow_now_waits_here_and_each_point_runs_once(lab, limited):
    limited("account", "lab", "MaxSubmitJobs", N_JOBS)  # which its users inherit
    other = slurm("sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true").strip()
    rows = submit_list(lab, N_POINTS)
    assert [bool(row["job_id"]) for row in rows] == [True] * 2 + [False] * 10
    assert len(queued()) == N_JOBS
    slurm("scancel", other)

    end_s = time.monotonic() + 300
    while (listed := lab("queue")).count("waiting here"):
        assert "not accepted" not in listed
        assert len(queued()) <= N_JOBS
        assert time.monotonic() < end_s, listed
    wait_until(lambda: not queued(), "the end of all")
    assert statuses(lab, rows) == ["finished"] * N_POINTS
    jobs = [record_of(row)["job"]["id"] for row in rows]
    assert len(set(jobs)) == N_POINTS
    started = [list(Path(row["run_dir"], "attempts").iterdir()) for row in rows]
    assert [len(attempts) for attempts in started] == [1] * N_POINTS
    # the controller tells slurmdbd of a job some time after squeue forgot it
    wait_until(
        lambda: {accounted().get(job) for job in jobs} == {"COMPLETED"}, "the accounts of all jobs"
    )
    of_nobody = accounted().keys() - set(jobs)
    later = [job for job in of_nobody if int(re.split(r"[_.+]", job)[0]) > int(other)]
    assert later == [], "a job of nobody's"


def test_the_limit_of_a_qos_counts_its_own_jobs(lab, limited):
    change("add", "qos", "small")
    change("modify", "user", "root", "set", "qos+=small")
    limited("qos", "small", "MaxSubmitJobsPerUser", 2)
    submit_list(lab, 1, "job.extra=[--hold]", script="sleep 3")  # of another QoS
    rows = submit_list(lab, 4, "job.qos=small", "job.extra=[--hold]", script="sleep 4")
    assert [bool(row["job_id"]) for row in rows] == [True, True, False, False]
    assert statuses(lab, rows) == ["queued"] * 4
    for row in rows:
        lab("cancel", row["run_id"])
    subprocess.run(["scancel", "--me"], check=True)
    wait_until(lambda: not queued(), "an empty queue")
    assert statuses(lab, rows) == ["cancelled"] * 4


def test_what_a_limit_that_nobody_asks_for_refuses_is_called_refused(lab, limited):
    limited("account", "lab", "GrpSubmitJobs", 2)
    words = ["site=slurm", "trial=baseline", "seed=range(3)", "job.gpus=0", "job.time=00:20:00"]
    output = lab("submit", *words, "--", "sleep", "5", rc=1)
    assert re.search("AssocGrpSubmitJobsLimit|job submit limit", output), output
    assert "No job was queued" in output
    assert not queued()
    refused = [
        row for row in json.loads(lab("runs", "list", "--json")) if row["status"] == "refused"
    ]
    assert len(refused) == 3
