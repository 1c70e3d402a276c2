# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery, one folder per capability. For notebooks: `from <package>.lab import load, submit, queue`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cluster.queue import queue
    from .cluster.submit import submit
    from .training.load import load

__all__ = ["load", "queue", "submit"]
HOME = {"load": ".training.load", "queue": ".cluster.queue", "submit": ".cluster.submit"}


def __getattr__(name: str) -> Any:
    """Imports what a notebook asks for only then: torch takes seconds."""
    if name in HOME:
        return getattr(import_module(HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
