"""The own code of a process: every file it imported that was not installed."""

from __future__ import annotations

import os
import sys
import sysconfig

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
