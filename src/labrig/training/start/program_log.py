"""What a program reports its metrics with."""

from __future__ import annotations

import math
import operator
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ... import env
from ...errors import Failed
from ...machine.stop import STOP
from ...record.files.metrics_file import ROW_KEYS, MetricsLog
from ...record.read.run import Run
from ..exact.stopped import Stopped


class ProgramLog:
    """The second argument of `main(config, log)`; in a script `from labrig.program import log`.

    Attributes:
        dir: directory of the run; what the program makes belongs here.
        checkpoints: directory for the state from which a resumed program continues. Only a program
            that keeps a file here is started again after a preemption.
        step: of the last row.
        metrics: the last value of each.
    """

    def __init__(self, config: DictConfig, run: Run, attempt: int, is_first: bool) -> None:
        self.dir = run.dir
        self.checkpoints = run.checkpoints
        self.step = 0
        self.metrics: dict[str, float] = {}
        self.has_fallen = False
        self.after_row: Callable[[], None] | None = None
        self.is_first = is_first
        self.every_s = config.log.every_s
        self.printed_s = -math.inf
        self.rows = MetricsLog(run.dir, attempt) if is_first else None
        self.loggers = []
        if is_first and config.logger:
            from ..parts.loggers import build_loggers  # Lightning

            self.loggers = build_loggers(config, run, attempt)[1:]
        self.stop_step = float(os.environ.get(env.STOP_STEP, "inf"))

    def __call__(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes a row of metrics.jsonl, and sends it to the loggers; the last value of each metric
        is the result of the run. Only the first rank writes.

        A program is stopped here: save the state to `checkpoints` before.

        Args:
            step: from 1, growing; a whole number, also of NumPy or torch.
            metrics: numbers, also of NumPy or torch. One with the name of a key that every row has,
                such as `epoch`, is kept as `log/epoch`.

        Raises:
            Failed: a value is not finite, or the step is no whole number.
            Stopped: the scheduler has asked the program to stop.
        """
        self.write(step, metrics)
        if self.must_stop(step):
            self.stop()

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """As a call, without stopping."""
        step = whole(step)
        if self.metrics and step < self.step and not self.has_fallen:
            self.has_fallen = True
            later = (
                "of two rows of a step the later counts. Count on: log(fold * n_steps + step, …)"
            )
            print(f"lab: step {step} comes after step {self.step}; {later}", file=sys.stderr)
        self.step = step
        values = {
            f"log/{name}" if name in ROW_KEYS else name: float(value)
            for name, value in metrics.items()
        }
        if self.rows:  # of the first rank
            self.rows.append(step, 0, values)
            for logger in self.loggers:
                # Lightning's loggers count steps from 0.
                logger.log_metrics(values | {"epoch": 0}, step=step - 1)
            self.metrics |= values
            if time.monotonic() - self.printed_s >= self.every_s:
                self.printed_s = time.monotonic()
                shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
                print(f"step {step}  {shown}", flush=True)
        wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong:
            raise Failed(
                f"{' and '.join(wrong)} at step {step}. Lower the learning rate, or look at the data."
            )
        if self.after_row:
            self.after_row()

    def must_stop(self, step: int) -> bool:
        """Whether somebody has asked the program to stop."""
        self.step = max(self.step, whole(step))
        return bool(STOP.signum) or step >= self.stop_step

    def stop(self) -> None:
        """Raises Stopped; a program with a saved state asks to be started again."""
        raise stopped(self.dir, self.checkpoints, self.step, self.is_first)

    def close(self) -> None:
        for logger in self.loggers:
            logger.finalize("success")


def whole(step: Any) -> int:
    """A step as the record has it; raises Failed where it is none."""
    with suppress(TypeError):
        number = operator.index(step)
        if not isinstance(step, bool) and 0 <= number < 2**63:
            return number
    form = "expected a whole number from 0 to 2**63 - 1. Type: log(int(step), …)"
    raise Failed(f"log(step, …) was given the step {step!r}, {form}")


def stopped(run_dir: Path, checkpoints: Path, step: int, is_first: bool = True) -> Stopped:
    """The end of a program that was asked to stop, for which a scheduler finds the mark `requeue`."""
    signum = STOP.signum
    STOP.signum = 0
    has_saved = any(checkpoints.glob("[!.]*"))
    requeue = has_saved and signum not in (0, signal.SIGINT)
    if requeue and is_first:
        (run_dir / "requeue").write_text(f"step {step}\n", encoding="utf-8")
    return Stopped(step=step, requeue=requeue, signum=signum, has_saved=has_saved)
