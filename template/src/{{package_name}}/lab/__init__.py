# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery: one folder for each thing a user does.

For notebooks: `from <package>.lab import load, submit, queue`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.queue import queue
    from .cluster.submit import submit
    from .training.load import load

__all__ = ["load", "queue", "submit"]
MODULES = {"load": ".training.load", "queue": ".cluster.queue", "submit": ".cluster.submit"}


def __getattr__(name: str) -> Any:
    """Imports a function when a notebook first uses it: torch takes seconds."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(MODULES[name], __name__), name)
