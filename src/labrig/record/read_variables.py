"""The names of the environment variables that own code reads; never their values."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType

from ..project import LIBRARY
from .own_files import installed_directories

# Files through which a read may go: os.getenv, os.environ.get, os.environ.copy.
PASSED_THROUGH = (os.getenv.__code__.co_filename, Mapping.get.__code__.co_filename)


class VariablesRead:
    """Collects the names, by the instruction that read them."""

    def __init__(self) -> None:
        self.not_own = (*installed_directories(), f"{LIBRARY}{os.sep}")
        self.by_place: dict[tuple[CodeType, int], set[str]] = {}

    def add(self, name: str) -> None:
        """Notes a read if own code does it. To be called by `os.environ`, two frames below it."""
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename in PASSED_THROUGH:
            frame = frame.f_back
        if frame is None:
            return
        file = frame.f_code.co_filename
        if os.path.isabs(file) and not file.startswith(self.not_own):
            self.by_place.setdefault((frame.f_code, frame.f_lasti), set()).add(name)

    @property
    def names(self) -> set[str]:
        """Every name, without the places that copied the whole environment."""
        names: set[str] = set()
        for of_place in list(self.by_place.values()):
            if len(of_place) == 1 or not of_place >= set(os.environ):
                names |= of_place
        return names


@contextmanager
def variables_watched() -> Iterator[VariablesRead]:
    """Notes which variables own code reads from `os.environ` within the block."""
    read = VariablesRead()
    usual = type(os.environ)

    class WatchedVariables(usual):
        def __getitem__(self, name: str) -> str:
            read.add(name)
            return super().__getitem__(name)

    # The object stays the same: `from os import environ` may have been called before.
    os.environ.__class__ = WatchedVariables
    try:
        yield read
    finally:
        os.environ.__class__ = usual
