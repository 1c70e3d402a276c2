"""The TensorBoard logger: the curves of all attempts of a run are one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import TensorBoardLogger

from ..record.run import Run


class TensorBoardOfRun(TensorBoardLogger):
    """Writes to runs/<trial>/<id>/tensorboard.

    When an attempt resumes, it has TensorBoard forget the points that a killed one wrote after its
    last checkpoint.
    """

    def __init__(self, run: Run, attempt: int, **settings: Any) -> None:
        super().__init__(run.dir, name="tensorboard", version="", **settings)
        self.begins_again = attempt > 1

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if self.begins_again:
            self.begins_again = False
            forget_from(self, step or 0)
        super().log_metrics(metrics, step)


def forget_from(logger: TensorBoardLogger, step: int) -> None:
    """What `SummaryWriter(purge_step=step)` writes; the step is known only now."""
    from tensorboard.compat.proto import event_pb2

    protobuf: Any = event_pb2  # whose classes are made at run time
    status = protobuf.SessionLog(status=protobuf.SessionLog.START)
    writer = logger.experiment.file_writer
    writer.add_event(protobuf.Event(step=step, file_version="brain.Event:2"))
    writer.add_event(protobuf.Event(step=step, session_log=status))
