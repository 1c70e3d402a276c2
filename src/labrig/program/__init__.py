"""What a program of one's own needs: `log`, and the place of its process.

    from labrig.program import log

    log(step, {"loss": loss.item()})

`log` is the run's in a script that `lab train` has started. Elsewhere it does nothing, so the script
runs without lab as before. labrig.program.huggingface has a callback, labrig.program.accelerate a tracker.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import env
from ..config.resolve import resolve
from ..machine.ranks import Ranks, discover
from ..machine.stop import PREEMPTION_SIGNALS, STOP
from ..training.start.program_log import ProgramLog
from ..training.start.script import attempt_of_process

__all__ = ["ProgramLog", "Ranks", "discover", "log"]


class ScriptLog:
    """The log of the run that this process works on; of no run it writes nothing."""

    @cached_property
    def of_run(self) -> ProgramLog | None:
        """Made when it is first used. From then on a signal stops the script at its next row."""
        if env.ATTEMPT not in os.environ:
            return None
        run, attempt, config = attempt_of_process()
        made = ProgramLog(resolve(config), run, attempt, is_first=discover().rank == 0)
        STOP.listen(*PREEMPTION_SIGNALS)
        atexit.register(made.close)
        return made

    def __call__(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes a row of metrics.jsonl; may end the program, if it was asked to stop."""
        if self.of_run:
            self.of_run(step, metrics)

    @property
    def dir(self) -> Path:
        """The directory of the run; without a run the current one."""
        return self.of_run.dir if self.of_run else Path.cwd()

    @property
    def checkpoints(self) -> Path:
        """Where the state belongs from which a resumed program continues."""
        return self.of_run.checkpoints if self.of_run else Path.cwd()

    def must_stop(self, step: int) -> bool:
        """Whether somebody has asked the program to stop: save the state, then call `stop`."""
        return self.of_run is not None and self.of_run.must_stop(step)

    def stop(self) -> None:
        """Ends the program, which continues later."""
        if self.of_run:
            self.of_run.stop()


log = ScriptLog()
