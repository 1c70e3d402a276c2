# ruff: noqa: F811 (fixtures are imported by name)
"""A connection that is lost at any moment leaves one job: the same command again finds it."""

import re
from pathlib import Path

import pytest
from slurm_jobs import json_of, wait_until
from ssh_hosts import hosts, lab  # noqa: F401

pytestmark = pytest.mark.slow

LOOK = "/received"  # a part of each command that a submission runs on a host
UPLOAD = "wc"
UNPACK = "read-tree"
SUBMIT = "remote.receive"


@pytest.mark.release
@pytest.mark.parametrize(
    ("when", "word"),
    [
        ("before", LOOK),
        ("during", UPLOAD),
        ("after", UPLOAD),
        ("during", UNPACK),
        ("after", UNPACK),
        ("before", SUBMIT),
        ("during", SUBMIT),
        ("after", SUBMIT),
    ],
)
def test_the_same_command_again_leaves_one_job(lab, hosts, when, word):
    account = hosts.accounts["a"]
    (lab.folder / "src/myproj/new.txt").write_text(f"{when} {word}")  # so that code travels
    ran = account.home / f"ran-{when}-{Path(word).name}"
    words = ["submit", "on=a", "job.gpus=0", "--json", "--", "bash", "-c", 'echo >>"$0"', str(ran)]
    before = account.run_dirs()
    account.cut(when, word)
    output = lab(*words, rc=1)
    assert re.search("the same (command )?again", output)
    lab(*words)
    new = [folder for folder in account.run_dirs() if folder not in before]
    assert len(new) == 1
    wait_until((new[0] / "summary.json").exists, "the run over")
    assert ran.read_text() == "\n", "it ran once"


def test_the_queue_finds_a_job_whose_answer_was_lost(lab, hosts):
    account = hosts.accounts["b"]
    words = ["submit", "on=b", "job.gpus=0", "--", "true"]
    account.cut("before", SUBMIT)
    assert "It finds the job" not in lab(*words, rc=1)
    output = lab("queue")
    assert "has not arrived on b. Type the same command again, or: lab cancel" in output
    run_id = output.rpartition("lab cancel ")[2].strip()
    assert "is forgotten here" in lab("cancel", run_id)
    assert account.run_dirs() == []
    account.cut("after", SUBMIT)
    lab(*words, rc=1)
    assert "has not arrived" not in lab("queue")
    (run,) = account.run_dirs()
    wait_until((run / "summary.json").exists, "the run over")
    assert "1 fetched" in lab("runs", "pull", run.name)


@pytest.mark.release
def test_a_job_that_has_begun_is_kept_though_nobody_wrote_down_its_id(lab, hosts):
    account = hosts.accounts["b"]
    go = account.home / "go"
    wait = 'until [ -e "$0" ]; do sleep 0.2; done'
    words = ["submit", "on=b", "job.gpus=0", "--json", "--", "bash", "-c", wait, str(go)]
    sent = json_of(lab(*words))
    wait_until((Path(sent["run_dir"]) / "attempts/1/start.json").exists, "the job begun")
    # As if the host had died before it wrote its answer.
    (account.place / f"runs/.remote/received/{sent['run_id']}.json").unlink()
    note = lab.folder / f"runs/.remote/sent/{sent['run_id']}.json"
    note.write_text(note.read_text().replace('"state": "sent"', '"state": "sending"'))
    before = account.run_dirs()
    assert json_of(lab(*words)) == sent
    assert account.run_dirs() == before
    go.touch()
    wait_until((Path(sent["run_dir"]) / "summary.json").exists, "the run over")
