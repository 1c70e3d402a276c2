# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks every byte of a data file against the hashes it carries, and names its content by one hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .file_layout import OFFSETS, Array, DataFileError, Layout, layout
from .writer import BLOCK_BYTES


def verify(path: str | Path, progress: Callable[[int], Any] | None = None) -> Layout:
    """Reads all arrays (about 1 GB/s) and compares their sha256; `progress` is told the bytes of each block.

    Raises:
        DataFileError: naming the array that differs, or what else is wrong with the file.
    """
    found = layout(path)
    for group, arrays in (("data", found.arrays), ("splits", found.splits)):
        for array in arrays.values():
            if (sha256 := _sha256_of(found, array, progress)) != array.sha256:
                raise DataFileError(
                    f"{path}: /{group}/{array.name} is damaged: sha256 {sha256[:12]}… found, "
                    f"{array.sha256[:12] or 'none'}… expected. "
                    f"Copy the file again, or pack it again: lab data pack {found.path.stem}"
                )
    for name in found.fields:
        if found.is_ragged(name) and (np.diff(found.map(found.arrays[name + OFFSETS])) < 0).any():
            raise DataFileError(
                f"{path}: {name + OFFSETS} go backwards; the writer was wrong. Pack it again."
            )
    return found


def _sha256_of(found: Layout, array: Array, progress: Callable[[int], Any] | None) -> str:
    sha256, left, buffer = hashlib.sha256(), array.n_bytes, memoryview(bytearray(BLOCK_BYTES))
    with open(
        found.path, "rb", buffering=0
    ) as file:  # read, not mapped: a file cut meanwhile is an error, not a SIGBUS
        file.seek(array.offset)
        while left:
            n_read = file.readinto(buffer[: min(left, BLOCK_BYTES)])
            if not n_read:
                raise DataFileError(
                    f"{found.path}: {array.name} ends {left} bytes early; the file was cut while it was read."
                )
            sha256.update(buffer[:n_read])
            left -= n_read
            if progress:
                progress(n_read)
    return sha256.hexdigest()


def fingerprint(path: str | Path) -> dict[str, Any]:
    """What the file is, by its content: `sha256` over all arrays' hashes, `n`, `size_bytes`, `path`.

    The bytes are verified once per (path, size, mtime); the answer is kept in the user's cache directory, so
    that the next call costs microseconds and imports no HDF5.

    Raises:
        DataFileError: as `verify`.
    """
    path = Path(path).resolve()
    known = _remembered(path)
    return known if known else remember(verify(path))


def remember(verified: Layout) -> dict[str, Any]:
    """Keeps the fingerprint of a file whose bytes were just verified or written."""
    path = verified.path.resolve()
    arrays = {f"data/{name}": array for name, array in verified.arrays.items()}
    arrays |= {f"splits/{name}": array for name, array in verified.splits.items()}
    lines = [
        f"{name} {array.dtype.str} {array.shape} {array.sha256}" for name, array in sorted(arrays.items())
    ]
    stat = os.stat(path)
    known = {
        "path": str(path),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "n": verified.n,
        "size_bytes": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
    }
    note = _note(path)
    temporary = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(known), encoding="utf-8")
        os.replace(temporary, note)
    except OSError:  # a full or read-only home costs the next run a second reading, nothing else
        temporary.unlink(missing_ok=True)
    return known


def _remembered(path: Path) -> dict[str, Any] | None:
    try:
        stat = os.stat(path)
        known = json.loads(_note(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = (known.get("path"), known.get("size_bytes"), known.get("mtime_ns")) == (
        str(path),
        stat.st_size,
        stat.st_mtime_ns,
    )
    return known if same else None


def _note(path: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "lab" / "fingerprints" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
