# ruff: noqa: F811 (fixtures are imported by name)
"""Jobs on a real Slurm that cannot write how they ended: `lab` says it in words. Needs root; `make test-cluster`."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from slurm_jobs import (  # noqa: F401
    FOLDER,
    SCRIPTS,
    cluster,
    ended,
    job,
    lab,
    needs_root,
    slurm,
    submit,
    wait_until,
)

pytestmark = needs_root
STUBBORN = ["--", "bash", "-c", "trap '' TERM; while sleep 1; do :; done"]


@pytest.fixture(scope="module")
def out_of_time(lab):
    """A job that ignores the warning before its time limit; the other tests run meanwhile."""
    return submit(lab, "job.gpus=0", "job.time=00:01:00", "job.extra=[--nodelist=c1]", *STUBBORN)


@pytest.fixture
def second_node():
    """Brings the second node back, whatever a test did to it."""
    yield
    Path(FOLDER / "prolog-fails").unlink(missing_ok=True)
    outside = int((FOLDER / "pid/node-c2").read_text())
    if not Path(f"/proc/{outside}").exists():
        subprocess.run([SCRIPTS / "slurm_node_start.sh", FOLDER, "c2"], check=True, timeout=60)

    def is_back():
        subprocess.run(
            ["scontrol", "update", "NodeName=c2", "State=RESUME"], capture_output=True, timeout=60
        )
        return slurm("sinfo", "-h", "-n", "c2", "-o", "%T").strip() in ("idle", "mixed")

    wait_until(is_back, "the second node back")


def has_begun(sent):
    wait_until((Path(sent["run_dir"]) / "attempts/1/start.json").exists, "the start")


def words_of(lab, sent):
    """How the job ended, as the queue and the page of its run say; both say the same."""
    page = lab("runs", "show", sent["run_id"])
    words = re.search(rf"^  job +{sent['job_id']} on slurm: (.*)$", page, re.MULTILINE)[1]
    queue = lab("queue")
    assert re.search(rf"^{sent['run_id']} .*{sent['job_id']}\n    {re.escape(words)}$", queue, re.M)
    assert max(map(len, queue.splitlines())) <= 80
    return words


def over(lab, sent):
    wait_until(lambda: sent["run_id"] not in lab("queue").partition("stopped")[0], "the end")


def test_a_killed_process_is_told_with_what_srun_printed(lab, out_of_time):
    sent = submit(lab, "job.gpus=0", *STUBBORN)
    has_begun(sent)
    slurm("scancel", "--signal=KILL", f"{sent['job_id']}.0")  # as the kernel, short of memory
    over(lab, sent)
    assert words_of(lab, sent).startswith("killed (SIGKILL), usually for lack of memory")
    for words in ([], ["--rank", "0"]):
        assert re.search(r"srun: error: c\d: task 0: Killed", lab("logs", sent["run_id"], *words))


def test_a_dead_node_is_named(lab, out_of_time, second_node):
    where = 'job.extra=["--nodelist=c2", "--no-requeue"]'
    sent = submit(lab, "job.gpus=0", where, "--", "sleep", "300")
    has_begun(sent)
    os.kill(int((FOLDER / "pid/node-c2").read_text()), signal.SIGKILL)
    slurm("scontrol", "update", "NodeName=c2", "State=DOWN", "Reason=test")
    over(lab, sent)
    assert words_of(lab, sent) == "its node failed (c2); what was saved can be resumed"


def test_a_failing_prolog_is_told_while_the_job_is_held(lab, out_of_time, second_node):
    (FOLDER / "prolog-fails").touch()
    sent = submit(lab, "job.gpus=0", "job.extra=[--nodelist=c2]", "--", "true")
    wait_until(lambda: "its node could not launch it" in lab("queue"), "the prolog")
    page = lab("runs", "show", sent["run_id"])
    assert re.search(r"^  job +\d+ on slurm: its node could not launch it", page, re.M)
    assert "no log yet; it is queued" in lab("logs", sent["run_id"], rc=2)
    lab("cancel", sent["run_id"])


def test_the_expected_start_of_a_waiting_job_is_told(lab):
    blocker = slurm(
        "sbatch",
        "--parsable",
        "--nodelist=c2",
        "--exclusive",
        "--time=10",
        "--output=/dev/null",
        "--wrap=sleep 600",
    ).strip()
    try:
        wait_until(lambda: job(blocker)["JobState"] == "RUNNING", "the blocker")
        sent = submit(lab, "job.gpus=0", "job.extra=[--nodelist=c2]", "--", "true")
        expected = r"queued .*\n    next in line;.* \(start: 2\d{3}-\d\d-\d\d \d\d:\d\d\)\n"
        wait_until(lambda: re.search(expected, lab("queue")), "the estimate")
        lab("cancel", sent["run_id"])
    finally:
        slurm("scancel", blocker)


def test_the_time_limit_is_told(lab, out_of_time):
    ended(out_of_time, "TIMEOUT")
    words = words_of(lab, out_of_time)
    assert words == "killed at its time limit (job.time), before it had saved"
