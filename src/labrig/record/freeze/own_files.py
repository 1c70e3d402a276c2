"""The own code of a process: every file it imported that was not installed."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType
from typing import Any

from ... import env
from ...project import LIBRARY

# Directories of the standard library, of the installed packages and of their commands.
OF_PYTHON = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
OF_PACKAGES = ("site-packages", "dist-packages")
MAIN = ("__main__", "__mp_main__")  # the second is a name that scikit-learn gives the first
# Code that torch generates from what is recorded.
GENERATED = (
    "torchinductor",
    f"{os.sep}triton",
    f"{os.sep}.triton",
    "torch_extensions",
    "_remote_module_non_scriptable",  # torch up to 2.7, when it is imported
)


def own_files() -> list[str]:
    """The absolute path of every imported file of own code, sorted.

    It may lie in the project, in an editable install or in a directory of PYTHONPATH. The library
    is not among them unless it is frozen code, too: library.py compares it.
    """
    installed = installed_directories()
    if env.FROZEN not in os.environ:
        installed = (*installed, os.path.join(LIBRARY, ""))
    paths = set()
    for name, module in list(sys.modules.items()):
        # Not getattr: some packages import a part of theirs when it is asked for anything.
        path = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(path, str) or not os.path.isabs(path):
            continue
        if name in MAIN:
            path = os.path.realpath(path)  # a link to `lab` is that command
        if not path.startswith(installed) and not is_generated(path):
            paths.add(path)
    return sorted(paths)


def is_generated(path: str) -> bool:
    """Whether torch has written a file from what is recorded."""
    return any(word in path for word in GENERATED)


def installed_directories() -> tuple[str, ...]:
    """Where Python and its package managers put files, each with a separator at its end."""
    places = {sysconfig.get_path(name) for name in OF_PYTHON}
    places |= {entry for entry in sys.path if is_package_directory(entry)}
    places |= {os.path.realpath(place) for place in places}
    return tuple(os.path.join(place, "") for place in places)


def is_package_directory(path: str) -> bool:
    """Whether a directory of the import path is one that packages are installed into."""
    return os.path.basename(os.path.normpath(path)) in OF_PACKAGES


# The names of the environment variables that own code reads; never their values.

# Files through which a read may go: os.getenv, os.environ.get, os.environ.copy.
WORD = re.compile(r"\w+")
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
        """Every name; of a copy of the whole environment those that the file which made it spells out."""
        names: set[str] = set()
        for (code, _), of_place in list(self.by_place.items()):
            if len(of_place) > 1 and of_place >= set(os.environ):
                words = set(WORD.findall("".join(linecache.getlines(code.co_filename))))
                names |= of_place & words
            else:
                names |= of_place
        return names


@contextmanager
def variables_watched() -> Iterator[VariablesRead]:
    """Notes which variables own code reads from `os.environ` within the block."""
    read = VariablesRead()
    usual = type(os.environ)

    class WatchedVariables(usual):
        def __getitem__(self, name: Any) -> Any:
            read.add(os.fsdecode(name))
            return super().__getitem__(name)

    # The objects stay the same: `from os import environ` may have been called before.
    watched: list[Any] = [os.environ, os.environb]
    for variables in watched:
        variables.__class__ = WatchedVariables
    try:
        yield read
    finally:
        for variables in watched:
            variables.__class__ = usual
