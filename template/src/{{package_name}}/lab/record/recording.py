# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Records a training: begins an attempt, touches its heartbeat, and ends it in any case."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .. import env
from ..errors import Failed, LabError
from ..failure import debugging, describe, is_interruption
from ..project import Project
from .attempt import TRACEBACK, Attempt
from .attempt_files import read_attempts
from .begin import begin_attempt
from .imported import require_policy
from .ran import RanCode, code_of_attempt, imported_code, print_unrecorded, unrecorded_names
from .read_variables import VariablesRead, variables_watched
from .run import Run
from .schema import StartRecord

HEARTBEAT_S = 30


class Recording:
    """What a training adds to the record of its attempt; only the first rank writes it.

    `earlier` is start.json of the run's first attempt. What the training puts into `metrics` and
    `measured` is written when the attempt ends. `ran` is the code that this process runs, and
    `variables_read` what it reads of its environment.
    """

    def __init__(
        self,
        attempt: Attempt | None,
        n: int,
        earlier: StartRecord,
        ran: RanCode | None = None,
    ) -> None:
        self.attempt = attempt
        self.n = n
        self.earlier = earlier
        self.ran = ran or RanCode()
        self.variables_read = VariablesRead()
        self.metrics: dict[str, float] = {}
        self.measured: dict[str, Any] = {}

    def note(self, **facts: Any) -> None:
        """Adds to start.json."""
        if self.attempt:
            self.attempt.note(**facts)

    def check_code(self) -> None:
        """Makes sure that the code which runs is the code which was frozen, and records it.

        To be called once all parts are built, before the training.

        Raises:
            Refused: a file was changed after the freeze, or the freeze left one out.
        """
        self.note_ran(self.ran.check())
        if self.attempt:
            print_unrecorded(self.attempt.facts["variables_read"])

    def note_ran(self, code_facts: dict[str, Any]) -> None:
        """Adds to start.json what was imported, and the variables that were read."""
        if self.attempt:
            facts = self.attempt.facts
            names = unrecorded_names(self.variables_read, facts.get("variables", {}))
            self.note(code=facts.get("code", {}) | code_facts, variables_read=names)


@contextmanager
def record_attempt(
    run: Run, project: Project, env_policy: str, code_policy: str = "refuse", **facts: Any
) -> Iterator[Recording]:
    """Begins an attempt and ends it: finished, interrupted or failed, with the reason.

    Args:
        env_policy: see `begin_attempt`.
        code_policy: what to do about imported files that the freeze left out: "refuse" or "warn".
        facts: for start.json.

    Raises:
        Failed: the training raised an error that no user's mistake explains.
        LabError: the user's mistake, once it is recorded.
        KeyboardInterrupt: the training was interrupted.
    """
    require_policy(code_policy)
    attempt = begin_attempt(run, project, env_policy, **facts)
    os.environ[env.RUN_DIR] = str(run.dir)
    os.environ[env.ATTEMPT] = str(attempt.n)
    ran = RanCode(imported_code(project, code_of_attempt(run, attempt.facts)), code_policy)
    recording = Recording(attempt, attempt.n, read_attempts(run.dir)[0].start, ran)
    stop = threading.Event()
    threading.Thread(target=keep_heartbeat, args=(attempt, stop), daemon=True).start()
    try:
        with variables_watched() as recording.variables_read:
            try:
                yield recording
            finally:
                # On a full disk, the end of the attempt reports it.
                with suppress(OSError):
                    recording.note_ran(ran.check_late())
    except BaseException as error:
        shown = error_to_show(error, run, attempt)
        status = status_for(error)
        if status == "interrupted":
            attempt.end(status, recording.metrics, **recording.measured)
            print(f"interrupted; {how_it_continues(run)}")
        else:
            attempt.end(status, recording.metrics, exception=error, **recording.measured)
        if shown is error or debugging():
            raise
        raise shown from error
    else:
        attempt.end("finished", recording.metrics, **recording.measured)
    finally:
        stop.set()
        os.environ.pop(env.RUN_DIR, None)
        os.environ.pop(env.ATTEMPT, None)


def keep_heartbeat(attempt: Attempt, stop: threading.Event) -> None:
    """Touches the heartbeat from a thread, so that a long step does not look dead."""
    while not stop.wait(HEARTBEAT_S):
        # On a full disk, the step that writes reports it.
        with suppress(OSError):
            attempt.touch_heartbeat()


def status_for(error: BaseException) -> str:
    """The status of an attempt that `error` ended: interrupted or failed."""
    if is_interruption(error):
        return "interrupted"
    if isinstance(error, LabError) and error.exit_code in (0, 130):
        return "interrupted"
    return "failed"


def how_it_continues(run: Run) -> str:
    """Who continues an interrupted run: its job when a scheduler starts it again, else the user."""
    job = run.record.get("job") or {}
    has_scheduler = env.JOB in os.environ and job.get("scheduler") != "local"
    if has_scheduler and (run.dir / "requeue").exists():
        return "the job continues it"
    return f"continue with: lab resume {run.id}"


def error_to_show(error: BaseException, run: Run, attempt: Attempt) -> BaseException:
    """The exception that the user sees in place of `error`.

    Of an error that no message explains it is the last line of the project's own code, and the error.
    """
    if is_interruption(error):
        return KeyboardInterrupt()
    if isinstance(error, LabError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(error, run)
    # Lightning's exception for a mistake of the user.
    if type(error).__name__ == "MisconfigurationException":
        return LabError(str(error))
    file = os.path.relpath(attempt.dir / TRACEBACK)
    return Failed(f"the training failed. Its whole traceback:\n{file}\n{describe(error)}")


def full_disk(error: OSError, run: Run) -> Failed:
    """Which disk is full, and how the run continues."""
    place = error.filename or run.dir
    existing = place if os.path.exists(place) else run.dir
    free_gb = shutil.disk_usage(existing).free / 1e9
    return Failed(
        f"no space left on the disk of {place}, or its quota is used up "
        f"({free_gb:.2f} GB free there). The record and the last checkpoint are kept. "
        f"Free some space, then: lab resume {run.id}"
    )
