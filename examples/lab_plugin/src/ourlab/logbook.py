"""Writes a line into the lab's logbook when a training has ended."""

import getpass
import json
import time

import lightning.pytorch as L
from lightning.pytorch.utilities import rank_zero_only

from . import logbook_file


class Logbook(L.Callback):
    """One line for each fit that came to its end: who, what, and the last metrics.

    `after` names the callback that it follows; lab docs training has the list.
    """

    after = "means"

    def __init__(self, config):
        self.trial = str(config.trial)

    @rank_zero_only
    def on_fit_end(self, trainer, pl_module):
        file = logbook_file()
        if file is None:
            return
        line = {
            "ended": time.strftime("%Y-%m-%d %H:%M"),
            "user": getpass.getuser(),
            "trial": self.trial,
            "directory": trainer.default_root_dir,
            "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        }
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(line) + "\n")
