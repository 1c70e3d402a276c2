"""A tracker for accelerate: what `accelerator.log` is given becomes rows of the run.

from labrig.program.accelerate import RecordTracker

accelerator = Accelerator(log_with=[RecordTracker()])
accelerator.init_trackers("any name")
"""

from __future__ import annotations

from typing import Any

from accelerate.tracking import GeneralTracker

from . import log


class RecordTracker(GeneralTracker):
    """Writes the numbers; a step that is not given is one more than the last."""

    name = "labrig"
    requires_logging_directory = False
    main_process_only = True

    @property
    def tracker(self) -> Any:
        return log

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        if log.of_run is None:
            return
        numbers = {name: x for name, x in values.items() if isinstance(x, int | float)}
        log(log.of_run.step + 1 if step is None else step, numbers)
