"""The sha256 of checkpoints. It is taken while a checkpoint is written: reading 30 GB again takes too long.

A file next to the checkpoints holds them by inode, with size and time: a link or another name needs no
second reading, and the attempts of a run share them.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from .atomic import read_advisory, read_text, sha256, write_file, write_json
from .checkpoint_files import SUMS, format_sums, n_bytes_of, sums_of

HASHES = ".hashes.json"  # in the directory of checkpoints
BESIDE_BYTES = 1 << 20  # a piece of this size and more is hashed by another thread


class HashedFile:
    """A file that is hashed while it is written, piece by piece, in order.

    Use it in a `with`, after which `hexdigest` is that of the whole file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def __enter__(self) -> HashedFile:
        self.thread = ThreadPoolExecutor(1)
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.shutdown()

    def write(self, piece: memoryview | bytes) -> int:
        if len(piece) < BESIDE_BYTES:
            self.sha256.update(piece)
            return self.file.write(piece)
        hashed = self.thread.submit(self.sha256.update, piece)
        try:
            return self.file.write(piece)
        finally:
            hashed.result()  # the piece is valid in this call only

    def flush(self) -> None:
        self.file.flush()

    def tell(self) -> int:
        return self.file.tell()

    def fileno(self) -> int:
        self.file.flush()  # torch calls os.fsync before it flushes
        return self.file.fileno()

    def close(self) -> None:
        """Leaves it to who has opened the file."""

    def hexdigest(self) -> str:
        return self.sha256.hexdigest()


def remember_hash(path: Path, digest: str) -> None:
    """Keeps the hash of a checkpoint, and forgets those of files that are gone."""
    directory = path.parent
    with suppress(OSError):  # a full disk: the file is read again later
        existing = {str(file.stat().st_ino) for file in directory.glob("*.ckpt")}
        kept = known_hashes(directory)
        kept = {inode: entry for inode, entry in kept.items() if inode in existing}
        status = path.stat()
        kept[str(status.st_ino)] = {**version_of(status), "sha256": digest}
        write_json(directory / HASHES, kept)


def known_hashes(directory: Path) -> dict[str, Any]:
    """What `remember_hash` has kept, by inode."""
    return read_advisory(directory / HASHES) or {}


def version_of(status: os.stat_result) -> dict[str, int]:
    """What differs when the content of a file differs."""
    return {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def known_hash(hashes: Mapping[str, Any], status: os.stat_result) -> str | None:
    """The hash of a file that was kept; None where there is none, or the file is another one now."""
    entry = hashes.get(str(status.st_ino), {})
    is_same = entry.items() >= version_of(status).items()
    return entry["sha256"] if is_same else None


def hash_once(path: Path) -> str:
    """The sha256 of weights, which are read only where nobody kept it, and once in a process."""
    status = path.stat()
    kept = listed_hash(path) if path.is_dir() else known_hash(known_hashes(path.parent), status)
    return kept or _read(path, status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache
def _read(path: Path, *version: int) -> str:
    return sha256(path)


def checkpoint_hashes(
    directory: Path, leave_out: Path | None = None, may_read_bytes: float = math.inf
) -> dict[str, dict[str, Any]]:
    """Size and sha256 of every checkpoint in a directory but `leave_out`.

    Args:
        may_read_bytes: of checkpoints whose hash is not known. The sha256 of the rest is None.
    """
    hashes = known_hashes(directory)
    checkpoints = {}
    for path in sorted(directory.glob("*.ckpt")):
        if path == leave_out:
            continue
        status = path.stat()
        n_bytes = n_bytes_of(path)
        digest = listed_hash(path) if path.is_dir() else known_hash(hashes, status)
        if digest is None and n_bytes <= may_read_bytes:
            digest = sha256(path)
            hashes[str(status.st_ino)] = {**version_of(status), "sha256": digest}
            may_read_bytes -= n_bytes
        checkpoints[path.name] = {"bytes": n_bytes, "sha256": digest}
    return checkpoints


def write_sums(directory: Path, sums: dict[str, str]) -> None:
    """Puts the list of its files into a directory."""
    write_file(directory / SUMS, format_sums(sums))


def read_sums(directory: Path) -> dict[str, str]:
    """What the directory lists, as it was written; empty when another program wrote it."""
    sums = {}
    with suppress(OSError, UnicodeDecodeError):
        for line in read_text(directory / SUMS).splitlines():
            digest, _, name = line.partition("  ")
            sums[name] = digest
    return sums


def listed_hash(directory: Path) -> str | None:
    """The hash of a checkpoint that is a directory, by its own list; None when that is not of all files."""
    sums = read_sums(directory)
    is_whole = sums and sums.keys() == sums_of(directory, str).keys()
    return hashlib.sha256(format_sums(sums).encode()).hexdigest() if is_whole else None
