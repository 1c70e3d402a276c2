"""Loads a project's modules so that what ran is known, and is the frozen code once there is one.

Python would take the file that lies there at the moment of the import, or a bytecode file that only
seems to belong to it. Here the bytes of a module are kept as they were loaded, and bytecode files are
neither read nor written. Once the code is frozen, the bytes on the disk are taken where git's hash of
them is the frozen one, else those of git. Paths stay those of the work tree, so breakpoints, tracebacks
and `inspect.getsource` fit. An audit hook (https://peps.python.org/pep-0578/) notes which other files
were read, executed, or loaded as a library in C.
"""

from __future__ import annotations

import getpass
import linecache
import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import Any

from ... import env
from ...project import LIBRARY
from ..files.atomic import open_file

IN_LIBRARY = os.path.join(LIBRARY, "")
CODE = (".py", ".pyc")
REPORT = ".read-"  # the beginning of the names of reports
WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
EVENTS = frozenset({"open", "exec", "import", "ctypes.dlopen"})
FromFrozen = Callable[[str, bytes], bytes]  # path and bytes on the disk to the frozen bytes
# Directories of the standard library, of the installed packages and of their commands.
OF_PYTHON = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
OF_PACKAGES = ("site-packages", "dist-packages")
MAIN = ("__main__", "__mp_main__")  # the second is a name that scikit-learn gives the first
OF_OLD_TORCH = "_remote_module_non_scriptable.py"  # torch up to 2.7, when it is imported


class OwnModules:
    """What this process has loaded and read of the directories below `roots`."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] = ()  # each with a separator at its end
        self.installed: tuple[str, ...] = ()
        self.from_frozen: FromFrozen | None = None
        self.loaded: dict[str, bytes] = {}  # source of each module by its path
        self.read: dict[str, None] = {}  # paths of other files, in order
        self.elsewhere: tuple[str, ...] = ()  # where files that are only read do not count
        self.reports: Path | None = None  # where other processes than `owner` say what they read
        self.owner: int | None = None
        self._report: int | None = None  # the open file of this process

    def watch(self, *roots: Path) -> None:
        """From now on modules below `roots` are loaded here, and files that are read are noted."""
        if not self.roots:
            self.installed = installed_directories()
            sys.path_hooks.insert(0, self.finder)
            sys.addaudithook(audit_hook(self))
        added = {os.path.join(root, "") for root in roots}
        self.roots = tuple({*self.roots, *added})
        for directory in list(sys.path_importer_cache):
            if self.covers(os.path.realpath(directory)):
                del sys.path_importer_cache[directory]

    def report_to(self, directory: Path, is_owner: bool = False) -> None:
        """From now on processes that this one starts, or it itself, report what they read in a file there.

        Args:
            is_owner: this process writes the record, and reads their reports.
        """
        self.reports = directory
        self.owner = os.getpid() if is_owner else None

    def add_reports(self) -> None:
        """Adds to `read` what other processes have reported."""
        for path in self.reports.glob(f"{REPORT}*") if self.reports else []:
            with suppress(OSError):
                with open_file(path) as file:
                    names = file.read().split(b"\0")
                self.read.update((os.fsdecode(name), None) for name in names if name)

    def end_reports(self) -> None:
        """Deletes the reports, at the end of an attempt."""
        for path in self.reports.glob(f"{REPORT}*") if self.reports else []:
            with suppress(OSError):
                path.unlink()
        self.reports = None

    def report(self, path: str) -> None:
        """Tells the process that writes the record of a file that this one has read."""
        if self._report is None:
            name = f"{REPORT}{os.uname().nodename}-{os.getpid()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            assert self.reports
            self._report = os.open(self.reports / name, flags, 0o666)
        os.write(self._report, os.fsencode(path) + b"\0")

    def covers(self, path: str) -> bool:
        """Whether a directory or file lies below the roots and is not an installed package's."""
        inside = os.path.join(path, "")
        return inside.startswith(self.roots) and not inside.startswith(self.installed)

    def finder(self, directory: str) -> FileFinder:
        """Python's own finder of modules, with another loader; a hook of sys.path_hooks."""
        # A path may be relative, lead through a link, or be an archive.
        if not self.covers(os.path.realpath(directory)) or not os.path.isdir(directory):
            raise ImportError(f"{directory} is left to Python")
        loader: Any = partial(SourceLoader, own=self)
        return FileFinder(
            directory,
            (ExtensionFileLoader, EXTENSION_SUFFIXES),
            (loader, SOURCE_SUFFIXES),
            (SourcelessFileLoader, BYTECODE_SUFFIXES),
        )

    def source(self, path: str) -> bytes:
        """The bytes of a module, which are noted."""
        with open(path, "rb") as file:
            content = on_disk = file.read()
        if self.from_frozen:
            content = self.from_frozen(path, on_disk)
        if content != on_disk:  # tracebacks show what runs
            lines = content.decode(errors="replace").splitlines(keepends=True)
            linecache.cache[path] = (len(content), None, lines, path)
        self.loaded[path] = content
        return content

    def note_file(self, path: str) -> None:
        """Notes a file, if it is one of the project or code, and own code asked for it."""
        if path in self.read or path.startswith(self.installed):
            return
        path = os.path.abspath(path)
        if path.endswith(".pyc"):  # of a file that a program loads by itself
            folder, name = os.path.split(path)
            folder = folder.removesuffix(f"{os.sep}__pycache__")
            source = os.path.join(folder, f"{name.partition('.')[0]}.py")
            path = source if os.path.exists(source) else path
        if path.startswith(IN_LIBRARY):  # the library is compared as a whole
            return
        is_code = path.endswith(CODE) and not is_generated(path)
        is_of_project = path.startswith(self.roots) and not path.startswith(self.elsewhere)
        if (is_code or is_of_project) and self.is_read_by_own_code():
            self.read[path] = None
            if self.reports and os.getpid() != self.owner:
                self.report(path)

    def is_read_by_own_code(self) -> bool:
        """Whether the code that opens a file is the user's, perhaps through a package."""
        frame = sys._getframe(3)
        while frame:
            file = frame.f_code.co_filename
            if file.startswith(IN_LIBRARY):
                return False
            if os.path.isabs(file) and not file.startswith(self.installed):
                return True
            frame = frame.f_back
        return True  # a thread of a package


class SourceLoader(SourceFileLoader):
    """Loads a module of Python's source from its bytes, without bytecode files."""

    def __init__(self, fullname: str, path: str, own: OwnModules) -> None:
        super().__init__(fullname, path)
        self.own = own

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: Any = self.source_to_code(self.own.source(path), path)
        return code


def audit_hook(own: OwnModules) -> Callable[[str, tuple[Any, ...]], None]:
    """The hook that tells `own` of files. It returns at once for other events, and never raises."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS:
            return
        try:
            path = file_of_event(event, arguments)
            if path:
                own.note_file(path)
        except Exception:  # it would reach the user's call
            pass

    return hook


def file_of_event(event: str, arguments: tuple[Any, ...]) -> str | None:
    """The file that an event reads, executes or loads; None without one."""
    path = arguments[1] if event == "import" else arguments[0]
    if event == "open":
        flags = arguments[2]
        if flags.__class__ is int and flags & WRITES:
            return None
    elif event == "exec":
        path = path.co_filename
        if not os.path.isabs(path):  # such as <string>
            return None
    if path.__class__ is bytes:
        return os.fsdecode(path)
    return path if path.__class__ is str else None


OWN = OwnModules()


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
