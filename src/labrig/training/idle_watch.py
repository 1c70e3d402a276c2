"""Tells when the GPUs of a training do nothing, because it hangs or waits for its data."""

from __future__ import annotations

import threading
from typing import Any

import lightning.pytorch as L
from omegaconf import DictConfig

from ..machine.gpu import utilization_percent
from ..machine.idle_gpus import IDLE_MIN, wait_until_idle
from ..project import this_project
from ..record.run import Run
from .notify import notify_idle


class IdleWatch(L.Callback):
    """With `notify` and a GPU: a thread of the first rank looks at its GPU every 30 seconds.

    A thread, because a training that hangs calls no hook.
    """

    def __init__(self, config: DictConfig, run: Run) -> None:
        self.config = config
        self.run = run
        self.has_ended = threading.Event()

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        device = trainer.strategy.root_device
        if self.config.get("notify") and device.type == "cuda" and trainer.is_global_zero:
            self.has_ended.clear()
            threading.Thread(target=self._watch, args=[device.index], daemon=True).start()

    def _watch(self, index: int) -> None:
        is_idle = wait_until_idle(
            lambda: not self.has_ended.is_set(),
            lambda: [utilization_percent(index)],
            sleep=self.has_ended.wait,
        )
        if is_idle:
            notify_idle(self.config, self.run, this_project(), IDLE_MIN)

    def on_fit_end(self, *_: Any, **__: Any) -> None:
        self.has_ended.set()

    on_exception = on_fit_end
