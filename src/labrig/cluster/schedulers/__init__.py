"""The schedulers: one class each, in the file of its name, or in a plug-in of the group labrig.schedulers.

To add one, write a class as in lsf.py, which is a whole example, and name it in SCHEDULERS of env.py, or in
the entry points of a package of yours. tests/cluster/test_schedulers.py says what every class must do.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ...env import SCHEDULERS
from ...errors import LabError, nearest
from ...plugins import distinct_plugins, load_plugin

if TYPE_CHECKING:
    from .scheduler import Scheduler


def scheduler_names() -> list[str]:
    """What `scheduler:` of a profile may be."""
    folder = Path(__file__).parent
    installed = [name for name in SCHEDULERS if (folder / f"{name}.py").exists()]
    return [*installed, *distinct_plugins("schedulers", SCHEDULERS)]


@cache
def scheduler_of(name: str) -> Scheduler:
    """The scheduler of this name in a profile."""
    names = scheduler_names()
    if name in SCHEDULERS and name in names:
        classes = vars(importlib.import_module(f"{__name__}.{name}")).values()
        return next(one for one in classes if getattr(one, "name", None) == name)()
    if plugin := distinct_plugins("schedulers", SCHEDULERS).get(name):
        return load_plugin(plugin)()
    raise LabError(
        f"there is no scheduler {name}{nearest(name, names)}. There are: {', '.join(names)}.\n"
        "Is the package that brings it installed? lab docs lab"
    )


def all_schedulers() -> list[Scheduler]:
    """Every scheduler that is known here."""
    return [scheduler_of(name) for name in scheduler_names()]
