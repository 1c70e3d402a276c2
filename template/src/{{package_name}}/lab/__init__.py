# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery: one folder for each thing a user does.

For notebooks: `from <package>.lab import runs, trials, load, submit, queue, logs`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.logs import logs
    from .cluster.queue import queue
    from .cluster.runs import runs
    from .cluster.submit import submit
    from .training.load import load
    from .trials.trial import trials

__all__ = ["load", "logs", "queue", "runs", "submit", "trials"]
MODULES = {
    "load": ".training.load",
    "logs": ".cluster.logs",
    "queue": ".cluster.queue",
    "runs": ".cluster.runs",
    "submit": ".cluster.submit",
}


def __getattr__(name: str) -> Any:
    """Imports a function when a notebook first uses it: torch takes seconds."""
    if name == "trials":
        return import_module(".trials", __name__)  # a folder that can be called
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name], __name__), name)
