"""Loads a project's modules so that what ran is known, and is the frozen code once there is one.

Python would take the file that lies there at the moment of the import, or a bytecode file that only
seems to belong to it. Here the bytes of a module are kept as they were loaded, and bytecode files are
neither read nor written. Once the code is frozen, the bytes on the disk are taken where git's hash of
them is the frozen one, else those of git. Paths stay those of the work tree, so breakpoints, tracebacks
and `inspect.getsource` fit. An audit hook (https://peps.python.org/pep-0578/) notes which other files
were read, loaded as a library in C, or named to a program that was started.
"""

from __future__ import annotations

import linecache
import os
import shlex
import sys
from collections.abc import Callable, Iterable
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

from ...project import LIBRARY
from .own_files import installed_directories, is_generated

IN_LIBRARY = os.path.join(LIBRARY, "")
CODE = (".py", ".pyc")
WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
FromFrozen = Callable[[str, bytes], bytes]  # path and bytes on the disk to the frozen bytes


class OwnModules:
    """What this process has loaded and read of the directories below `roots`."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] = ()  # each with a separator at its end
        self.installed: tuple[str, ...] = ()
        self.from_frozen: FromFrozen | None = None
        self.loaded: dict[str, bytes] = {}  # source of each module by its path
        self.read: dict[str, None] = {}  # paths of other files, in order

    def watch(self, *roots: Path) -> None:
        """From now on modules below `roots` are loaded here, and files that are read are noted."""
        if not self.roots:
            self.installed = installed_directories()
            sys.path_hooks.insert(0, self.finder)
            sys.addaudithook(self.note)
        added = {os.path.join(root, "") for root in roots}
        self.roots = tuple({*self.roots, *added})
        for directory in list(sys.path_importer_cache):
            if self.covers(os.path.realpath(directory)):
                del sys.path_importer_cache[directory]

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

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notes a file that is opened for reading; an audit hook, so it is quick and never fails."""
        if event == "open":
            path, _, flags = arguments
            if flags.__class__ is int and flags & WRITES:
                return
            if path.__class__ is str:
                self.note_file(path)
            elif path.__class__ is bytes:
                self.note_file(os.fsdecode(path))
        elif event == "ctypes.dlopen":
            if arguments[0].__class__ is str:
                self.note_file(arguments[0])
        elif event in NAMES_FILES:
            for path in NAMES_FILES[event](*arguments):
                if os.path.isfile(path):
                    self.note_file(path)

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
        if (is_code or path.startswith(self.roots)) and self.is_read_by_own_code():
            self.read[path] = None

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


def files_of_subprocess(program: Any, words: Any, folder: Any, variables: Any) -> list[str]:
    """The paths that the words of a command in `folder` may be; of subprocess.Popen."""
    paths = files_of_program(program, words, variables)
    return [os.path.join(os.fsdecode(folder or ""), path) for path in paths]


def files_of_program(program: Any, words: Any, variables: Any) -> list[str]:
    """The paths that the words of a command may be; of os.exec and os.posix_spawn."""
    words = [words] if isinstance(words, PATH_TYPES) else words
    typed = [os.fsdecode(word) for word in (program, *words) if isinstance(word, PATH_TYPES)]
    return [path for word in typed for path in (word, *split_words(word))]  # of `sh -c WORDS`, too


def files_of_shell(command: str | bytes) -> list[str]:
    """The paths that the words of a command line may be; of os.system."""
    return split_words(command)


def split_words(command: str | bytes) -> list[str]:
    text = os.fsdecode(command)
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return text.split()


PATH_TYPES = (str, bytes, os.PathLike)
# What starts a program, and the files that it names.
NAMES_FILES: dict[str, Callable[..., Iterable[str]]] = {
    "subprocess.Popen": files_of_subprocess,
    "os.exec": files_of_program,
    "os.posix_spawn": files_of_program,
    "os.system": files_of_shell,
}


class SourceLoader(SourceFileLoader):
    """Loads a module of Python's source from its bytes, without bytecode files."""

    def __init__(self, fullname: str, path: str, own: OwnModules) -> None:
        super().__init__(fullname, path)
        self.own = own

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: Any = self.source_to_code(self.own.source(path), path)
        return code


OWN = OwnModules()
