"""`lab rank`: one process of a job, or one task of an array over files, started by the job script."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from ... import env
from ...config.recorded import read_recorded
from ...config.resolve import load_variables
from ...errors import Failed, LabError
from ...machine.ranks import Ranks, discover
from ...machine.stop import PREEMPTION_SIGNALS, STOP
from ...machine.text_formats import counted, printable
from ...project import Project
from ...record.files.manifest import append_listed
from ...record.read.each import DONE, PLACE, InputFile, Inputs, done_files
from ...record.read.find import number_of_job
from ...record.read.run import Run
from ...record.read.status import JOB_OVER
from ...training.watch.messages import notify_end
from ..schedulers import scheduler_of
from ..watch.unanswered import Unsettled, settle
from .command_attempt import CommandAttempt, join_command, start_command
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


class Commands:
    """Starts one command after the other, until a signal asks to stop."""

    def __init__(self, run_dir: Path, cwd: Path | None) -> None:
        self.run_dir = run_dir
        self.cwd = cwd  # where each starts
        self.must_stop = bool(STOP.signum)  # a signal that came before
        self.process: subprocess.Popen | None = None
        for signum in PREEMPTION_SIGNALS:
            signal.signal(signum, self.stop)

    def stop(self, signum: int, frame: FrameType | None) -> None:
        self.must_stop = True
        if self.process:
            self.process.send_signal(signal.SIGTERM)

    def run(self, command: list[str]) -> int:
        """The exit code of a command; a negative one is a signal.

        Raises:
            OSError: it cannot be started.
        """
        self.process = start_command(command, self.run_dir, self.cwd)
        if self.must_stop:  # the signal came while it was being started
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait()
        finally:
            self.process = None


def run_over_files(project: Project, run: Run, inputs: Inputs) -> int:
    """Runs the command for each file that is not done; the run fails when one of them does.

    Returns:
        0, 1 when the command failed for a file, 143 when a signal asked to stop.
    """
    attempt = CommandAttempt.begin(project, run, inputs.command)
    commands = Commands(run.dir, attempt.cwd)
    done = done_files(run.dir)
    n_failed = 0
    for number, file in enumerate(inputs.files, start=1):
        if commands.must_stop:
            break
        if file in done:
            continue
        print(f"[{number}/{len(inputs.files)}] {printable(file.path)}", flush=True)
        try:
            exit_code = run_for_file(run, attempt.attempt.n, commands, inputs.command, file)
        except OSError as error:
            attempt.end("failed", exception=error)
            name = inputs.command[0]
            raise Failed(
                f"cannot start {name!r}: {error.strerror}. "
                "Is it on this node, and in PATH? Then lab submit again"
            ) from error
        n_failed += exit_code != 0 and not commands.must_stop
    if commands.must_stop:
        attempt.end("interrupted", exit_code=143, signal=int(signal.SIGTERM))
        return 143
    n_files = len(inputs.files)
    if n_failed:
        print(
            f"failed for {n_failed} of {counted(n_files, 'file')}; type the same again for these",
            flush=True,
        )
    status = "failed" if n_failed else "finished"
    attempt.end(status, exit_code=int(n_failed > 0))
    return int(n_failed > 0)


def run_for_file(
    run: Run, attempt: int, commands: Commands, command: list[str], file: InputFile
) -> int:
    """Runs the command for one file, and notes it unless a signal ended it; the exit code."""
    began_s = time.monotonic()
    try:
        now = InputFile.of(file.path)
    except OSError as error:
        print(f"  {error.strerror}: {printable(file.path)}", flush=True)
        return 1
    exit_code = commands.run([word.replace(PLACE, file.path) for word in command])
    if commands.must_stop and exit_code != 0:
        return exit_code
    if exit_code:
        print(f"  ended with code {exit_code}", flush=True)
    row = {
        **asdict(now),
        "exit_code": exit_code,
        "seconds": round(time.monotonic() - began_s, 3),
        "attempt": attempt,
        "ended_unix_s": round(time.time(), 3),
    }
    append_listed(run.dir, DONE, row)
    return exit_code
