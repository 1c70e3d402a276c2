# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Records one attempt from before the slow imports to its end, however it ends."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .. import env
from ..errors import Failed, LabError
from ..project import Project
from .attempt import Attempt
from .attempt_files import read_attempts
from .run import Run

BEAT_S = 30


class Recording:
    """What a training adds to the record of its attempt. On ranks other than the first, nothing is written."""

    def __init__(self, attempt: Attempt | None, n: int, earlier: dict[str, Any]) -> None:
        self.attempt, self.n, self.earlier = (
            attempt,
            n,
            earlier,
        )  # the last: start.json of the run's first attempt
        self.metrics: dict[str, float] = {}
        self.measured: dict[str, Any] = {}

    def note(self, **facts: Any) -> None:
        if self.attempt:
            self.attempt.note(**facts)


@contextmanager
def record_attempt(
    run: Run, project: Project, env_policy: str, secrets: list[str], **facts: Any
) -> Iterator[Recording]:
    """Begins an attempt and ends it: finished, interrupted or failed, with the reason.

    `secrets` are values that no file of the record may hold.

    Raises:
        Failed: the disk is full, with which one; other errors are passed on after they are recorded.
    """
    attempt = run.begin(project, env=env_policy, **facts)
    os.environ.update({env.RUN_DIR: str(run.dir), env.ATTEMPT: str(attempt.n)})
    attempt.secrets = secrets
    recording = Recording(attempt, attempt.n, read_attempts(run.dir)[0]["start"])
    stop = threading.Event()
    threading.Thread(target=touch_heartbeat, args=(attempt, stop), daemon=True).start()
    try:
        yield recording
    except BaseException as error:
        status, raised = ended_by(error, run)
        why = None if status == "interrupted" else error
        attempt.end(status, recording.metrics, exception=why, **recording.measured)
        if status == "interrupted":
            job = run.record.get("job") or {}  # without a scheduler nothing starts again by itself
            again = (
                env.JOB in os.environ
                and job.get("scheduler") != "local"
                and (run.dir / "requeue").exists()
            )
            print(
                "interrupted; "
                + ("the job continues it" if again else f"continue with: lab resume {run.id}")
            )
        if raised is error:
            raise
        raise raised from error
    else:
        attempt.end("finished", recording.metrics, **recording.measured)
    finally:
        stop.set()
        for name in (env.RUN_DIR, env.ATTEMPT):
            os.environ.pop(name, None)


def ended_by(error: BaseException, run: Run) -> tuple[str, BaseException]:
    """The status an exception means, and the exception to show instead of it."""
    if isinstance(error, KeyboardInterrupt | SystemExit):  # Lightning turns Ctrl-C into SystemExit
        return "interrupted", KeyboardInterrupt()
    if isinstance(error, LabError):
        return ("interrupted" if error.exit_code in (0, 130) else "failed"), error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = error.filename or run.dir
        free_gb = shutil.disk_usage(place if os.path.exists(place) else run.dir).free / 1e9
        return "failed", Failed(
            f"no space left on the disk of {place}, or its quota is used up ({free_gb:.2f} GB free there). "
            f"The record and the checkpoint before are kept. Make space, then: lab resume {run.id}"
        )
    if (
        type(error).__name__ == "MisconfigurationException"
    ):  # Lightning's word for the user's mistake
        return "failed", LabError(str(error))
    traceback.print_exception(error)
    return "failed", Failed(
        f"{type(error).__name__}: {str(error).partition(chr(10))[0]}; recorded in {run.dir}"
    )


def touch_heartbeat(attempt: Attempt, stop: threading.Event) -> None:
    """Touches the heartbeat, from a thread, so that a long step does not look dead."""
    while not stop.wait(BEAT_S):
        with suppress(OSError):  # a full disk: the step that writes will tell
            attempt.beat()
