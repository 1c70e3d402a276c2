"""`lab rank`: one process of a job, started by the job script."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from ... import env
from ...config.recorded import read_recorded
from ...config.resolve import load_variables
from ...errors import Failed, LabError
from ...machine.ranks import Ranks, discover
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...project import Project
from ...record.read.each import Inputs
from ...record.read.find import number_of_job
from ...record.read.run import Run
from ...record.read.status import JOB_OVER
from ...training.watch.messages import notify_end
from ..schedulers import scheduler_of
from ..watch.unanswered import Unsettled, settle
from .command import start_command
from .command_attempt import CommandAttempt, join_command
from .rank_over_files import run_over_files
from .used import use_noted


def rank_command(project: Project, args: list[str]) -> int:
    """`lab rank` trains, `lab rank -- COMMAND` runs any command; both only inside a job."""
    STOP.listen(*PREEMPTION_SIGNALS)
    if env.RUN_DIR not in os.environ:
        raise LabError(
            "lab rank is started by a job script only."
            " To train here: lab train. To send a job: lab submit"
        )
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    ranks = discover()
    if ranks.rank == 0:
        update_job_id(run)
    if ranks.node_rank:
        atexit.register(clean_as_last, os.getpid(), ranks)
    with use_noted(run, ranks):
        if args[:1] != ["--"]:
            return train_rank(project, run, ranks.rank)
        try:
            return run_command(project, run, args[1:], ranks)
        finally:
            if ranks.rank == 0:
                tell_end_of_command(project, run)


def clean_as_last(pid: int, ranks: Ranks) -> None:
    """Removes this node's copy of the code when all of its processes have ended.

    Of a job that was cancelled the script can start no step on other nodes any more; on its own it
    removes the copy itself.
    """
    node_dir = Path(os.environ.get(env.FROZEN, "")).parent
    if os.getpid() != pid or not node_dir.name.startswith(f"lab-{os.environ.get(env.JOB)}-"):
        return
    with suppress(OSError):
        (node_dir / f"ended-{ranks.local_rank}").touch()
        if len(list(node_dir.glob("ended-*"))) >= ranks.local_size:
            shutil.rmtree(node_dir, ignore_errors=True)


def train_rank(project: Project, run: Run, rank: int) -> int:
    """Trains; the first rank records the attempt, the others join it."""
    from ...training.start.command import join_attempt, train_attempt  # imports torch

    if rank == 0:
        return train_attempt(project, run, overrides=[])
    os.environ[env.ATTEMPT] = os.environ[env.NEXT_ATTEMPT]
    return join_attempt()


def tell_end_of_command(project: Project, run: Run) -> None:
    """Tells that a command has ended, by the ways of `notify`."""
    load_variables(project)
    notify_end(read_recorded(run.dir / "config.yaml"), run, project)


def update_job_id(run: Run) -> None:
    """Records that the job of a run is there, and its id where the record has none or another one.

    The job before one that was sent again left the scheduler's answer in a file. The job script has
    noted the number of a job whose sender got no answer.
    """
    (run.dir / JOB_OVER).unlink(missing_ok=True)
    job = run.record.get("job") or {}
    answer_file = run.dir / "resubmitted"
    if "id" not in job and "script" in job:
        with suppress(Unsettled):  # its id stays open until the scheduler answers
            settle(run.record)
    elif "id" in job and answer_file.exists():
        answer = answer_file.read_text(encoding="utf-8")
        number = scheduler_of(job["scheduler"]).number_in(answer)
        index_in_array = job["id"].removeprefix(number_of_job(job["id"]))
        if number and number + index_in_array != job["id"]:
            earlier_ids = [*job.get("earlier_ids", []), job["id"]]
            run.update(job=job | {"id": number + index_in_array, "earlier_ids": earlier_ids})


def run_command(project: Project, run: Run, command: list[str], ranks: Ranks) -> int:
    """Runs `command` as an attempt of `run`, which the first rank records; passes signals on to it.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.
    """
    inputs = Inputs.read(run.dir)
    if inputs:
        return run_over_files(project, run, inputs)
    attempt = None
    if ranks.rank == 0:
        attempt = CommandAttempt.begin(project, run, command, is_shared=ranks.world_size > 1)
        cwd = attempt.cwd
    else:
        cwd = join_command(project, run)
    try:
        process = start_command(command, run.dir, cwd)
    except OSError as error:
        if attempt:
            attempt.end("failed", exception=error)
        raise Failed(
            f"cannot start {command[0]!r}: {error.strerror}. "
            "Is it on this node, and in PATH? Then lab submit again"
        ) from error
    for signum in PREEMPTION_SIGNALS:
        signal.signal(signum, lambda number, frame: process.send_signal(signal.SIGTERM))
    code = process.wait()
    if attempt:
        asks_again = (run.dir / "requeue").exists()
        status = "interrupted" if asks_again else status_of_code(code)
        attempt.end(status, exit_code=code, signal=-code if code < 0 else None)
    return code if code >= 0 else 128 - code


def status_of_code(code: int) -> str:
    """The status of an attempt whose command ended with `code`; a negative code is a signal."""
    if code == 0:
        return "finished"
    return "interrupted" if code < 0 else "failed"
