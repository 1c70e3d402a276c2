"""A callback for the Trainer of Hugging Face: its numbers become rows of the run, and a run that is asked
to stop saves first.

    from labrig.program.huggingface import RecordCallback, last_checkpoint

    trainer.add_callback(RecordCallback())
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate.utils import reduce
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from . import log


class RecordCallback(TrainerCallback):
    """Writes what the Trainer logs, by its names; its `epoch`, a fraction, is `log/epoch`."""

    def __init__(self) -> None:
        self.stops = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        log.must_stop(0)  # from now on a signal is a request

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        numbers = {name: x for name, x in (logs or {}).items() if isinstance(x, int | float)}
        if log.of_run:
            log.of_run.write(state.global_step, numbers)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Where a stop is asked for, saves a checkpoint and ends the training: all processes at one step."""
        stop = torch.tensor(int(log.must_stop(state.global_step)), device=args.device)
        total: Any = reduce(stop, "sum")  # of all processes
        if total > 0:
            self.stops = True
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.stops:
            log.stop()


def last_checkpoint(output_dir: str | Path) -> str | None:
    """The checkpoint from which a resumed run continues; None where there is none yet."""
    folder = Path(output_dir)
    return get_last_checkpoint(str(folder)) if folder.is_dir() else None
