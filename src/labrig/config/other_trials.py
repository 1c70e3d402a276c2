"""A trial imports no other trial: that one may change or go, and is no part of the own code."""

from __future__ import annotations

import sys
from types import ModuleType

from ..errors import LabError
from ..project import this_project


def refuse_other_trials(trial: str) -> None:
    """Makes sure that no loaded module of a trial uses what lies in another one."""
    trials = f"{this_project().package}.trials."
    own = trial.partition("/")[0]
    for name, module in sorted(sys.modules.items()):
        if name != trials + own and not name.startswith(f"{trials}{own}."):
            continue
        for value in list(vars(module).values()):
            home = value.__name__ if isinstance(value, ModuleType) else home_of(value)
            other = home.removeprefix(trials).partition(".")[0] if home.startswith(trials) else own
            if other != own and (this_project().source / "trials" / other).is_dir():
                raise LabError(
                    f"{name} imports {home}: trial {own} uses code of trial {other}, which may change "
                    f"or be deleted, and is not compared with that of {own}. Copy what it needs into "
                    f"trials/{own}/, or move it into the package, where all trials may import it"
                )


def home_of(value: object) -> str:
    """The module in which a class or a function was written; "" for other values."""
    home = getattr(value, "__module__", None) if callable(value) else None
    return home if isinstance(home, str) else ""
