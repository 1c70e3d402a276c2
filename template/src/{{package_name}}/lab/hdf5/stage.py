# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Copies a data file to node-local memory or disk, once for a node, verified.

Whoever uses a copy holds a shared lock on it. Its last user removes it, and so does the next job
when the last user was killed; a kept copy, which is read-only, stays until `lab data stage
--remove`.
"""

import fcntl
import glob
import os
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..machine.disk import node_local_directory, require_free_space
from ..project import Project
from .checksum import verify_file, version_key
from .file_errors import DataFileError
from .find import data_file_of, parser_for_one_file

KEPT = 0o400  # mode of a copy that stays without a user
REMOVABLE = 0o600


def stage_directory(place: str) -> Path:
    """Where this user's copies lie for a value of data.stage: shm, tmpdir or a directory.

    Raises:
        DataFileError: there is no such place.
    """
    if place == "shm":
        directory = Path("/dev/shm")
    elif place == "tmpdir":
        directory = node_local_directory()
    else:
        directory = Path(os.path.expandvars(place))
    if directory is None or not directory.is_dir():
        raise DataFileError(
            f"data.stage is {place!r}, which this node does not have; expected shm, a directory, "
            "or tmpdir (with TMPDIR or the scheduler's variable set)."
        )
    return directory / f"lab-data-{os.getuid()}"


def stage(path: Path, place: str, owner: Any, keep: bool = False) -> Path:
    """The copy of `path` in `place`; or `path` itself, after one line that says why.

    Args:
        place: shm, tmpdir or a directory.
        owner: the copy is there until this object, and all other owners, are gone.
        keep: the copy is there until `unstage`.

    Raises:
        DataFileError: the copy does not match its hashes, or there is no such place.
    """
    directory = stage_directory(place)
    copy = directory / version_key(path)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _locked(directory):
            _remove_unused(*directory.iterdir())
            handle = _open_copy(copy, path)
            if keep:
                copy.chmod(KEPT)
    except OSError as error:
        reason = error.strerror or error
        print(f"lab: not staged to {place}: {reason}. Reading {path} where it is.", file=sys.stderr)
        return path
    weakref.finalize(owner, _release, copy, handle, os.getpid())
    return copy


def unstage(directory: Path, path: Path) -> None:
    """Removes copies without a user: the kept ones of `path`, and those that dead jobs left."""
    if not directory.exists():
        return
    with _locked(directory):
        for copy in directory.glob(f"*-{glob.escape(path.name)}"):
            copy.chmod(REMOVABLE)
        _remove_unused(*directory.iterdir())


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Only one process at a time makes or removes copies in `directory`."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_copy(copy: Path, path: Path) -> int:
    """Makes `copy` if it is not there, and opens it with a shared lock."""
    while True:
        try:
            handle = os.open(copy, os.O_RDONLY)
        except FileNotFoundError:
            _copy(path, copy)
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:  # else its last user removed it between opening and locking
            return handle
        os.close(handle)


def _copy(path: Path, copy: Path) -> None:
    require_free_space(copy.parent, path.stat().st_size)
    temporary = copy.with_suffix(".tmp")
    try:
        shutil.copyfile(path, temporary)
        verify_file(temporary)
        os.replace(temporary, copy)
    except DataFileError as error:
        raise DataFileError(f"{path} was copied, but the copy is damaged: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _release(copy: Path, handle: int, pid: int) -> None:
    if os.getpid() != pid:  # a forked worker shares the lock, and must not release it
        return
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
    _remove_unused(copy)


def _remove_unused(*copies: Path) -> None:
    for copy in copies:
        # not there any more, or in use
        with suppress(FileNotFoundError, BlockingIOError), open(copy, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_mode & 0o777 != KEPT:
                copy.unlink()


def stage_command(project: Project, args: list[str]) -> None:
    parser = parser_for_one_file(
        "stage", "copies a data file to this node, for trainings with data.stage=PLACE"
    )
    parser.add_argument(
        "--to",
        dest="place",
        default="shm",
        help="shm (/dev/shm), tmpdir, or a directory (default: shm)",
    )
    parser.add_argument("--remove", action="store_true", help="remove the copy")
    options = parser.parse_args(args)
    path = data_file_of(project, options.name)
    if options.remove:
        directory = stage_directory(options.place)
        unstage(directory, path)
        print(f"copies of {path.name} in {directory} are removed, but for those in use")
        return
    copy = stage(path, options.place, owner=parser, keep=True)
    if copy != path:
        remove = f"lab data stage {options.name} --to {options.place} --remove"
        print(f"{copy} is kept until: {remove}")
