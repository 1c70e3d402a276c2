"""Callbacks for `lab train`: how often each training step waits for the device, and one that makes it wait."""

import json
import warnings
from contextlib import ExitStack
from pathlib import Path

import lightning.pytorch as L
import torch
from rehearsal import REHEARSED

MESSAGE = "called a synchronizing CUDA operation"  # torch's, in its debug mode


class CountWaits(L.Callback):
    """Writes {step, batch, waits} for each step as a line of JSON.

    A step lasts from the start of its batch to that of the next, so that loading, loggers and all
    other callbacks are counted too; the first of an epoch includes the validation before it.
    """

    def __init__(self, file):
        self.file = Path(file)
        self.lines = []
        self.watching = ExitStack()

    def on_train_start(self, *_):
        self.seen = self.watching.enter_context(warnings.catch_warnings(record=True))
        warnings.filterwarnings("always", message=MESSAGE)
        watch("warn")
        self.watching.callback(watch, "default")

    def on_train_batch_start(self, trainer, task, batch, batch_idx):
        waits = sum(MESSAGE in str(each.message) for each in self.seen)
        self.lines.append({"step": trainer.global_step, "batch": batch_idx, "waits": waits})
        self.seen.clear()

    def on_train_end(self, *_):
        self.watching.close()
        self.file.write_text("".join(json.dumps(line) + "\n" for line in self.lines))


class Wait(L.Callback):
    """Reads a number from the device in each step."""

    def on_before_zero_grad(self, *_):
        if REHEARSED:
            warnings.warn(MESSAGE, stacklevel=1)
        else:
            torch.ones((), device="cuda").item()


def watch(mode):
    if not REHEARSED:
        torch.cuda.set_sync_debug_mode(mode)
