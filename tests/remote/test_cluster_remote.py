# ruff: noqa: F811 (fixtures are imported by name)
"""From a laptop to a real Slurm behind ssh. Needs root; `make test-cluster` runs it."""

import json
import os
import re
import shutil
from pathlib import Path

from commands import write_command
from slurm_jobs import cluster, ended, job, json_of, needs_root, slurm, wait_until  # noqa: F401
from ssh_hosts import hosts, lab  # noqa: F401

pytestmark = needs_root
HELD = ("on=a", "site=slurm", "job.gpus=0", "job.time=00:10:00", "job.extra=[--hold]", "--json")
# Slurm takes the job, and the process that sent it dies before it writes that down.
DYING = """#!/bin/bash
{sbatch} "$@"
code=$?
if [ -e ~/die ]; then rm ~/die; kill -9 $PPID; fi
exit $code
"""


def test_a_host_that_dies_while_it_sends_leaves_one_job_that_works(cluster, lab, hosts):
    account = hosts.accounts["a"]
    with open(account.home / ".bash_profile", "a") as profile:
        profile.write(f"export SLURM_CONF={os.environ['SLURM_CONF']}\n")
    write_command(hosts.folder / "bin", "sbatch", DYING.format(sbatch=shutil.which("sbatch")))
    ran = account.home / "ran"
    words = ["submit", *HELD, "--", "bash", "-c", 'echo "$LAB_JOB" >>"$0"', str(ran)]
    (account.home / "die").touch()
    assert "sends no second one" in lab(*words, rc=1)
    (first,) = slurm("squeue", "--noheader", "--format=%i").split()
    sent = json_of(lab(*words))
    assert sent["job_id"] != first
    assert "held by you" in lab("queue")
    for job_id in (first, sent["job_id"]):
        slurm("scontrol", "release", job_id)
    log = ended(sent)
    ended({**sent, "job_id": first})
    assert f"job {first} was sent again after a failure; this first one ends" in log
    assert ran.read_text() == f"{sent['job_id']}\n"
    assert len(account.run_dirs()) == 1
    assert "ended with code 0" in lab("logs", sent["run_id"], "-f")
    assert "1 fetched" in lab("runs", "pull")
    assert json.loads(lab("runs", "show", "@last", "--json"))["status"] == "finished"


def test_a_job_is_followed_and_cancelled_from_the_laptop(cluster, lab, hosts):
    program = "trap 'echo asked; exit 9' TERM; echo begun; while :; do sleep 0.2; done"
    settings = [word for word in HELD if "hold" not in word]
    sent = json_of(lab("submit", *settings, "--", "bash", "-c", program))
    log = Path(sent["run_dir"]) / "job.log"
    wait_until(lambda: log.exists() and "begun" in log.read_text(), "the program begun")
    assert re.search(rf"{sent['run_id']} .* {sent['job_id']} +running", lab("queue"))
    assert f"cancelled job {sent['job_id']}" in lab("cancel", "@last")
    wait_until(lambda: job(sent["job_id"])["JobState"] == "CANCELLED", "the job cancelled")
    assert "asked" in lab("logs", "@last", "-f")
