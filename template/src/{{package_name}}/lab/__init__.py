# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""The template's machinery, one folder per capability. For notebooks: `from <package>.lab import load`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fit.load import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Imports what a notebook asks for only then: torch takes seconds."""
    if name == "load":
        from .fit.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
