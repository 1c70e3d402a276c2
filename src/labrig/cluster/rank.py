"""`lab rank`: one process of a job, started by the job script."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from .. import env
from ..config.recorded import read_recorded
from ..config.resolve import load_variables
from ..errors import Failed, LabError
from ..machine.ranks import discover
from ..machine.stop import PREEMPTION_SIGNALS, STOP
from ..project import Project
from ..record.begin import begin_attempt
from ..record.each import Inputs
from ..record.run import Run
from ..training.notify import notify_end
from .command_cost import gpu_seconds
from .rank_over_files import run_over_files
from .start_command import start_command


def rank_command(project: Project, args: list[str]) -> int:
    """`lab rank` trains, `lab rank -- COMMAND` runs any command; both only inside a job.

    Raises:
        LabError: outside a job.
    """
    STOP.listen(*PREEMPTION_SIGNALS)
    if env.RUN_DIR not in os.environ:
        raise LabError(
            "lab rank is started by a job script only."
            " To train here: lab train. To send a job: lab submit"
        )
    run = Run.open(Path(os.environ[env.RUN_DIR]))
    rank = discover().rank
    if rank == 0:
        update_job_id(run)
    if args[:1] != ["--"]:
        return train_rank(project, run, rank)
    try:
        return run_command(project, run, args[1:], rank)
    finally:
        if rank == 0:
            tell_end_of_command(project, run)


def train_rank(project: Project, run: Run, rank: int) -> int:
    """Trains; the first rank records the attempt, the others join it."""
    from ..training.start import join_attempt, train_attempt  # imports torch

    if rank == 0:
        return train_attempt(project, run, overrides=[])
    os.environ[env.ATTEMPT] = os.environ[env.NEXT_ATTEMPT]
    return join_attempt()


def tell_end_of_command(project: Project, run: Run) -> None:
    """Tells that a command has ended, by the ways of `notify`."""
    load_variables(project)
    notify_end(read_recorded(run.dir / "config.yaml"), run, project)


def update_job_id(run: Run) -> None:
    """Records the new id of a job that was sent again.

    The job before it left the scheduler's answer in a file.
    """
    answer_file = run.dir / "resubmitted"
    if not answer_file.exists():
        return
    number = re.search(r"[1-9]\d*", answer_file.read_text(encoding="utf-8"))
    if number:
        job = run.record.get("job") or {}
        index_in_array = re.sub(r"^\d+", "", job["id"])
        earlier_ids = [*job.get("earlier_ids", []), job["id"]]
        run.update(job=job | {"id": number[0] + index_in_array, "earlier_ids": earlier_ids})


def run_command(project: Project, run: Run, command: list[str], rank: int) -> int:
    """Runs `command` as an attempt of `run`, which the first rank records; passes signals on to it.

    Returns:
        Its exit code; 128 + the signal's number when a signal ended it.

    Raises:
        Failed: the command does not exist.
    """
    inputs = Inputs.read(run.dir)
    if inputs:
        return run_over_files(project, run, inputs)
    attempt = begin_attempt(run, project, command=command) if rank == 0 else None
    try:
        process = start_command(command, run.dir)
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
        attempt.end(
            status,
            exit_code=code,
            signal=-code if code < 0 else None,
            gpu_seconds=gpu_seconds(run.dir, attempt, command),
        )
    return code if code >= 0 else 128 - code


def status_of_code(code: int) -> str:
    """The status of an attempt whose command ended with `code`; a negative code is a signal."""
    if code == 0:
        return "finished"
    return "interrupted" if code < 0 else "failed"
