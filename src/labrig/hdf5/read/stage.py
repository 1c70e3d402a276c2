"""Copies a data file to node-local memory or disk, once for a node, verified.

A copy is named by its content, belongs to the user alone, and is verified before it is used: all of
it once, and again when its file was changed since. Whoever uses a copy holds a shared lock on it. Its
last user removes it, and so does the next job when the last user was killed; a kept copy, which is
read-only, stays until `lab data stage --remove`.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...machine.disk import node_local_directory, require_free_space
from ...machine.resources import memory_limit_bytes
from ...project import Project
from ..file.checksum import fingerprint, sha256_of_hashes
from ..file.errors import DataFileError
from ..file.find import data_files_of, parser_for_one_file
from ..file.joined import read_layouts
from ..file.layout import BLOCK_BYTES, Layout, read_layout

# Reads a data file in order, which a network disk serves fastest, into the page cache.

N_PROBES = 64


def read_into_cache(*paths: Path) -> None:
    """Reads the files once, unless they are cached, or larger than half of the memory limit."""
    sizes_bytes = [path.stat().st_size for path in paths]
    if sum(sizes_bytes) > memory_limit_bytes() / 2:
        return
    for path, size_bytes in zip(paths, sizes_bytes, strict=True):
        _read_once(path, size_bytes)


def _read_once(path: Path, size_bytes: int) -> None:
    with open(path, "rb", buffering=0) as file:
        if _is_cached(file.fileno(), size_bytes):
            return
        buffer = bytearray(BLOCK_BYTES)
        while file.readinto(buffer):
            pass


def _is_cached(handle: int, size_bytes: int) -> bool:
    """Whether one byte at each of N_PROBES places can be read without waiting for the disk."""
    step = max(1, size_bytes // N_PROBES)
    with suppress(OSError):  # not in memory, or a file system that cannot tell
        return all(
            os.preadv(handle, [bytearray(1)], offset, os.RWF_NOWAIT)
            for offset in range(0, size_bytes, step)
        )
    return False


KEPT = 0o400  # mode of a copy that stays without a user
REMOVABLE = 0o600
OTHERS_MAY_WRITE = 0o022
KEY_LENGTH = 32  # hexadecimal digits of the hash in a copy's name
OWN_NAME = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}-.")  # how the name of a copy begins


def stage_directory(place: str) -> Path:
    """Where this user's copies lie for a value of data.stage: shm, tmpdir or a directory."""
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
    """
    directory = stage_directory(place)
    original = read_layout(path)
    copy = directory / f"{_content_key(original)}-{path.name}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _locked(directory):
            _remove_unused(*directory.iterdir())
            handle = _open_verified(copy, path, keep)
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
    try:
        with _locked(directory):
            for copy in directory.glob(f"*-{glob.escape(path.name)}"):
                if OWN_NAME.match(copy.name) and not copy.is_symlink():
                    copy.chmod(REMOVABLE)
            _remove_unused(*directory.iterdir())
    except OSError as error:
        raise DataFileError(
            f"nothing was removed: {error.strerror or error}. Look at it: ls -ld {directory}"
        ) from error


def _content_key(layout: Layout) -> str:
    """Names a data file by all that it says: the hashes of its arrays, and its attributes."""
    attrs = {name: array.attrs for name, array in layout.arrays_by_path.items()}
    content = json.dumps([sha256_of_hashes(layout), layout.attrs, attrs], default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:KEY_LENGTH]


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Only one process at a time makes or removes copies in `directory`."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_private(handle, directory)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check_private(handle: int, path: Path) -> None:
    """Refuses what somebody else has made, or may change: /dev/shm is open to all users of a node.

    Raises:
        OSError: EPERM, with the reason.
    """
    stat = os.fstat(handle)
    if stat.st_uid != os.getuid():
        raise OSError(errno.EPERM, f"{path} belongs to another user (uid {stat.st_uid})")
    if stat.st_mode & OTHERS_MAY_WRITE:
        raise OSError(errno.EPERM, f"others may write to {path}; remove it, or: chmod go-w {path}")


def _open_verified(copy: Path, path: Path, keep: bool) -> int:
    """Opens `copy`, with a shared lock, when all of it is what `path` holds; makes it otherwise."""
    handle = _open_copy(copy)
    if handle is not None:
        keep = keep or os.fstat(handle).st_mode & 0o777 == KEPT
        try:
            return _verified(handle, copy, keep)
        except DataFileError as error:
            print(f"lab: the staged copy is made again: {error}", file=sys.stderr)
    handle = None
    while handle is None:  # the last user of the copy before may remove this one
        _copy(path, copy)
        handle = _open_copy(copy)
    try:
        return _verified(handle, copy, keep)
    except DataFileError as error:
        raise DataFileError(
            f"{path} was copied, but the copy is damaged: {error}\nTo read it where it is: data.stage=null"
        ) from error


def _open_copy(copy: Path) -> int | None:
    """The copy with a shared lock; None without one, or when its last user just removed it."""
    try:
        handle = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    fcntl.flock(handle, fcntl.LOCK_SH)
    if os.fstat(handle).st_nlink == 0:
        os.close(handle)
        return None
    return handle


def _verified(handle: int, copy: Path, keep: bool) -> int:
    """The same handle.

    Raises:
        DataFileError: the content is not what its name says; the file is removed.
    """
    try:
        _check_private(handle, copy)
        if keep and os.fstat(handle).st_mode & 0o777 != KEPT:
            os.fchmod(handle, KEPT)
        layout = read_layout(copy)
        fingerprint(layout)  # reads all of it, unless this version of the file was verified before
        if not copy.name.startswith(_content_key(layout)):
            raise DataFileError(f"{copy} holds something else than its name says. Start again.")
    except DataFileError:
        copy.unlink()
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        raise
    return handle


def _copy(path: Path, copy: Path) -> None:
    require_free_space(copy.parent, path.stat().st_size)
    temporary = copy.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, REMOVABLE))
        shutil.copyfile(path, temporary)
        os.replace(temporary, copy)
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
        if not OWN_NAME.match(copy.name):
            continue
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
    paths = data_files_of(project, options.name)
    if options.remove:
        directory = stage_directory(options.place)
        for path in paths:
            unstage(directory, path)
            print(f"copies of {path.name} in {directory} are removed, but for those in use")
        return
    read_layouts(paths)  # so that what cannot be read as one is not copied
    for path in paths:
        copy = stage(path, options.place, owner=parser, keep=True)
        if copy == path:
            continue
        remove = f"lab data stage {options.name} --to {options.place} --remove"
        print(f"{copy} is kept until: {remove}")
