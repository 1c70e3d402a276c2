# ruff: noqa: F811 (fixtures are imported by name)
"""Runs on a real Slurm through preemption, time limits and dead nodes: the same weights and curves, bit for bit.

Needs root; `make test-cluster` runs it.
"""

import re
import time
from pathlib import Path

import pytest
from slurm_jobs import (  # noqa: F401
    at_step,
    cluster,
    curve,
    ended,
    in_node,
    job,
    kill_node,
    lab,
    left_in_memory,
    needs_root,
    notice_dead,
    reference,
    restarted,
    rows,
    slurm,
    start_node,
    submit,
    training,
    wait_until,
    weights,
)
from wandb_files import logged_steps

pytestmark = needs_root


def test_three_preemptions_continue_bit_for_bit(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2", "callbacks.slow.slow_attempts=3"))
    at_step(sent, 4)
    slurm("scancel", "--batch", "--signal=USR2", sent["job_id"])  # as at the time limit
    restarted(sent, 2)
    at_step(sent, 16, attempt=2)
    rank = in_node("c2", "pgrep", "-f", "labrig rank").stdout.split()[0]
    in_node("c2", "kill", "-TERM", rank)  # to one rank only
    restarted(sent, 3)
    at_step(sent, 28, attempt=3)
    slurm("scontrol", "requeue", sent["job_id"])  # kills at once: back to the last checkpoint
    log = ended(sent)
    assert log.count("saved; resuming after a requeue") >= 2
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)
    starts = sorted((Path(sent["run_dir"]) / "attempts").iterdir())
    assert [path.name for path in starts] == ["1", "2", "3", "4"]
    assert left_in_memory() == []


SAVES = """
test ! -e out/ckpt || exec cp out/ckpt out/done
trap 'cat pyproject.toml >out/ckpt; touch "$LAB_RUN_DIR/requeue"; exit 0' TERM
mkdir out
touch listens
while sleep 0.2; do :; done
"""


def test_a_command_that_is_preempted_finds_what_it_wrote(lab):
    sent = submit(lab, "job.gpus=0", "--", "bash", "-c", SAVES)
    work = Path(sent["run_dir"]) / "work"
    wait_until((work / "listens").exists, "the command")
    slurm("scancel", "--batch", "--signal=USR2", sent["job_id"])
    restarted(sent, 2)
    ended(sent)
    project_file = (lab.folder / "pyproject.toml").read_text()
    assert (work / "out/done").read_text() == project_file, "the frozen file was there"
    names = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
    assert names == {"listens", "out/ckpt", "out/done"}
    assert "wrote       work/out/done" in lab("runs", "show", sent["run_id"])
    assert left_in_memory() == []


def test_a_job_with_priority_preempts_and_the_run_resumes_after_it(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2", "job.queue=low"))
    at_step(sent, 4)
    urgent = slurm(
        "sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"
    ).strip()
    wait_until(lambda: job(urgent)["JobState"] == "COMPLETED", "the urgent job")
    log = ended(sent)
    assert "saved; resuming after a requeue" in log
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)


def no_message_waits():
    """Slurm tries for a minute to end the job on the dead node. That would end its next start too,
    which Slurm delays for two minutes, and these tests do not."""
    return re.search(r"^Agent queue size: +0$", slurm("sdiag"), re.MULTILINE)


def test_a_killed_node_costs_no_more_than_the_last_checkpoint(lab, reference):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 16)  # an epoch, and its checkpoint, are done
    kill_node("c2")
    notice_dead("c2")
    wait_until(
        lambda: job(sent["job_id"])["JobState"] in ("PENDING", "COMPLETING", "REQUEUED"),
        "the job ended",
    )
    start_node("c2")
    wait_until(no_message_waits, "the messages for the dead node sent")
    ended(sent)
    assert weights(sent) == weights(reference)
    assert curve(sent) == curve(reference)


def test_ranks_of_two_nodes_write_their_stacks_and_a_plain_scancel_cleans_both(lab):
    sent = submit(lab, *training(0.3, "job.nodes=2"))
    at_step(sent, 4)
    said = lab("logs", sent["run_id"], "--stacks")
    for rank in (0, 1):
        file = f"attempts/1/stack-{rank}.txt"
        assert file in said
        assert "myproj/train.py" in Path(sent["run_dir"], file).read_text()
    assert len(left_in_memory()) == 2, "the code, on each node"
    slurm("scancel", sent["job_id"])
    ended(sent, "CANCELLED")
    wait_until(lambda: left_in_memory() == [], "both nodes clean", timeout_s=30)
    time.sleep(5)
    assert job(sent["job_id"])["JobState"] == "CANCELLED", "it is not requeued either"


@pytest.mark.release  # tests/training/test_loggers.py has it without a scheduler
def test_offline_wandb_resumes_under_one_id(lab):
    words = training(0.3, "trainer.max_epochs=2", "job.gpus=0", "logger=wandb")
    sent = submit(lab, *words)
    at_step(sent, 8)
    slurm("scancel", "--batch", "--signal=USR2", sent["job_id"])
    ended(sent)
    files = sorted(Path(sent["run_dir"]).glob("wandb/offline-run-*/*.wandb"))
    assert [file.name for file in files] == [f"run-{sent['run_id']}.wandb"] * 2
    before, after = (logged_steps(file) for file in files)
    assert before
    assert set(before) < set(after), "the newest holds the whole run"
    assert after == sorted(row["step"] for row in rows(sent) if "train/loss" in row)
