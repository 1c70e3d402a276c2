"""The own code of a process: every file it imported that was not installed."""

from __future__ import annotations

import getpass
import os
import sys
import sysconfig
import tempfile

from ... import env
from ...project import LIBRARY

# Directories of the standard library, of the installed packages and of their commands.
OF_PYTHON = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
OF_PACKAGES = ("site-packages", "dist-packages")
MAIN = ("__main__", "__mp_main__")  # the second is a name that scikit-learn gives the first
OF_OLD_TORCH = "_remote_module_non_scriptable.py"  # torch up to 2.7, when it is imported


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
    """Whether torch or Triton has written a file of code from what is recorded."""
    temporary = tempfile.gettempdir()
    if os.path.basename(path) == OF_OLD_TORCH:
        return os.path.dirname(os.path.dirname(path)) == temporary
    return path.startswith(caches_of_generated_code())


def caches_of_generated_code() -> tuple[str, ...]:
    """The cache directories of torch's compiler, Triton and torch's extensions, with a separator at the end."""
    home = os.path.expanduser("~")
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    usual = {
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(
            tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}"
        ),
        "TRITON_CACHE_DIR": os.path.join(os.environ.get("TRITON_HOME") or home, ".triton", "cache"),
        "TORCH_EXTENSIONS_DIR": os.path.join(caches, "torch_extensions"),
    }
    # torch sets the first variable itself when it compiles.
    places = [os.environ.get(name) or place for name, place in usual.items()]
    return tuple(os.path.join(os.path.abspath(place), "") for place in places)


def installed_directories() -> tuple[str, ...]:
    """Where Python and its package managers put files, each with a separator at its end."""
    places = {sysconfig.get_path(name) for name in OF_PYTHON}
    places |= {entry for entry in sys.path if is_package_directory(entry)}
    places |= {os.path.realpath(place) for place in places}
    return tuple(os.path.join(place, "") for place in places)


def is_package_directory(path: str) -> bool:
    """Whether a directory of the import path is one that packages are installed into."""
    return os.path.basename(os.path.normpath(path)) in OF_PACKAGES
