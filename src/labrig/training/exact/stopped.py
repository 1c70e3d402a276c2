"""What ends a training that was asked to stop."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ... import env
from ...errors import LabError
from ...record.read.status import CANCELLED


class Stopped(LabError):
    """Raised out of `trainer.fit` on every rank, at the same step, once the checkpoint is on disk;
    or out of the `log` of a program.

    `requeue` is True when a scheduler asked (then `<run_dir>/requeue` exists and the exit code is
    0, so that no rank looks like a failure to the launcher), else False (130). `signum` is
    the signal that a rank received; of several ranks' the largest number.
    """

    def __init__(
        self, *, step: int, requeue: bool, signum: int | None = None, has_saved: bool = True
    ) -> None:
        self.step = step
        self.requeue = requeue
        self.signum = signum
        self.has_saved = has_saved
        self.exit_code = 0 if requeue else 130
        is_ctrl_c = not requeue and signum in (None, 0, signal.SIGINT)
        sender = "Ctrl-C" if is_ctrl_c else "the scheduler"
        if not is_ctrl_c and was_cancelled():
            sender = "lab cancel (or the guard against idle GPUs)"
        if env.STOP_STEP in os.environ:
            sender = "the repetition of another run"
        saved = "with" if has_saved else "without"
        super().__init__(f"stopped at step {step} {saved} a checkpoint, as {sender} asked")


def was_cancelled() -> bool:
    """Whether the run of this process was cancelled: then no scheduler asked."""
    run_dir = os.environ.get(env.RUN_DIR)
    return run_dir is not None and (Path(run_dir) / CANCELLED).exists()
