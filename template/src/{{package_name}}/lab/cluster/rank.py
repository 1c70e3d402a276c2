# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab rank`: one process of a job, started by the job script."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from .. import env
from ..errors import Failed, LabError
from ..machine.ranks import discover
from ..machine.stop import PREEMPTION_SIGNALS, STOP
from ..project import Project
from ..record.begin import begin_attempt
from ..record.run import Run


def rank_command(project: Project, args: list[str]) -> int:
    """`lab rank` trains, `lab rank -- COMMAND` runs any command; both only inside a job."""
    STOP.listen(*PREEMPTION_SIGNALS)
    if env.RUN_DIR not in os.environ:
        raise LabError(
            "lab rank is started by a job script. To train here: lab train; to send a job: lab submit"
        )
    run, rank = Run.open(Path(os.environ[env.RUN_DIR])), discover().rank
    if rank == 0:
        update_job_id(run)
    if args[:1] == ["--"]:
        return run_command(project, run, args[1:], rank)
    from ..training.start import join_attempt, train_attempt

    if rank == 0:
        return train_attempt(project, run, overrides=[])
    os.environ[env.ATTEMPT] = os.environ[env.NEXT_ATTEMPT]
    return join_attempt()


def update_job_id(run: Run) -> None:
    """A job that went on as a new one left what the scheduler said of it; the record gets the new id."""
    said, job = run.dir / "resubmitted", run.record.get("job") or {}
    if said.exists() and (number := re.search(r"[1-9]\d*", said.read_text(encoding="utf-8"))):
        in_array = re.sub(r"^\d+", "", job["id"])
        run.update(job=job | {"id": number[0] + in_array})


def run_command(project: Project, run: Run, command: list[str], rank: int) -> int:
    """Runs `command` as an attempt of `run`, which the first rank records; its exit code is ours, signals reach it too.

    Raises:
        Failed: the command does not exist.
    """
    attempt = begin_attempt(run, project, command=command) if rank == 0 else None
    inherited = {
        key: value for key, value in os.environ.items() if key not in (env.RUN_DIR, env.ATTEMPT)
    }
    inherited["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{inherited.get('PATH', '')}"
    try:  # while we listen: an ignored signal would stay ignored in it
        process = subprocess.Popen(command, env=inherited)
    except OSError as error:
        if attempt:
            attempt.end("failed", exception=error)
        raise Failed(f"cannot start {command[0]!r}: {error.strerror}") from error
    for signum in PREEMPTION_SIGNALS:
        signal.signal(signum, lambda number, _: process.send_signal(signal.SIGTERM))
    code = process.wait()
    if attempt:
        attempt.end(
            "finished" if code == 0 else "interrupted" if code < 0 else "failed", exit_code=code
        )
    return code if code >= 0 else 128 - code
