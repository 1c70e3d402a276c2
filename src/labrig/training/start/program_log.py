"""What a program reports its metrics with."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import DictConfig

from ...errors import Failed
from ...machine.stop import STOP
from ...record.files.metrics_file import MetricsLog, refuse_row_keys
from ...record.read.run import Run
from ...record.write.recording import Recording
from ..exact.stopped import Stopped


class ProgramLog:
    """The second argument of `main(config, log)`.

    Attributes:
        dir: directory of the run; what the program makes belongs here.
        checkpoints: directory for the state from which a resumed program continues. Only a program
            that keeps a file here is started again after a preemption.
        step: of the last row.
    """

    def __init__(self, config: DictConfig, run: Run, recording: Recording, is_first: bool) -> None:
        self.dir = run.dir
        self.checkpoints = run.checkpoints
        self.step = 0
        self.after_row: Callable[[], None] | None = None
        self.is_first = is_first
        self.every_s = config.log.every_s
        self.printed_s = -math.inf
        self.recording = recording
        self.rows = MetricsLog(run.dir, recording.n) if is_first else None
        self.loggers = further_loggers(config, run, recording.n) if is_first else []

    def __call__(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes a row of metrics.jsonl, and sends it to the loggers; the last value of each metric
        is the result of the run. Only the first rank writes.

        A program is stopped here: save the state to `checkpoints` before.

        Args:
            step: from 1, growing.
            metrics: numbers, also of NumPy or torch.

        Raises:
            LabError: a metric has the name of a key that every row has, such as `epoch`.
            Failed: a value is not finite.
            Stopped: the scheduler has asked the program to stop.
        """
        self.step = step
        refuse_row_keys(metrics)
        values = {name: float(value) for name, value in metrics.items()}
        if self.is_first:
            self._write(values)
        wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
        if wrong:
            raise Failed(
                f"{' and '.join(wrong)} at step {step}. Lower the learning rate, or look at the data."
            )
        if self.after_row:
            self.after_row()
        if STOP.signum:
            self._stop()

    def _write(self, values: dict[str, float]) -> None:
        assert self.rows is not None  # of the first rank, which alone comes here
        self.rows.append(self.step, 0, values)
        for logger in self.loggers:
            # Lightning's loggers count steps from 0.
            logger.log_metrics(values | {"epoch": 0}, step=self.step - 1)
        self.recording.metrics |= values
        if time.monotonic() - self.printed_s >= self.every_s:
            self.printed_s = time.monotonic()
            shown = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
            print(f"step {self.step}  {shown}", flush=True)

    def _stop(self) -> None:
        """Raises Stopped; a program with a saved state asks to be started again."""
        signum = STOP.signum
        STOP.signum = 0
        has_saved = any(self.checkpoints.glob("[!.]*"))
        requeue = has_saved and signum != signal.SIGINT
        if requeue and self.is_first:
            (self.dir / "requeue").write_text(f"step {self.step}\n", encoding="utf-8")
        raise Stopped(step=self.step, requeue=requeue, signum=signum, has_saved=has_saved)

    def close(self) -> None:
        for logger in self.loggers:
            logger.finalize("success")


def further_loggers(config: DictConfig, run: Run, attempt: int) -> list[Any]:
    """The loggers that `logger=` names next to metrics.jsonl."""
    if not config.logger:
        return []
    from ..loggers.loggers import build_loggers  # Lightning

    return build_loggers(config, run, attempt)[1:]
