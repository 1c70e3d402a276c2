# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks every byte of a data file; its fingerprint."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..errors import Failed
from ..project import Project
from .file_layout import (
    BLOCK_BYTES,
    OFFSETS,
    Array,
    DataFileError,
    Layout,
    byte_progress,
    file_identity,
    read_layout,
    require,
    require_undamaged,
)
from .find import add_file_argument, data_file_of


def verify_file(path: str | Path) -> Layout:
    """Reads all arrays (about 1 GB/s) and compares their sha256.

    Raises:
        DataFileError: naming the array that differs, or what else is wrong with the file.
    """
    found = read_layout(path)
    with byte_progress(f"verifying {found.path.name}", found.identity[0]) as bar:
        for name, array in found.every.items():
            sha256 = _sha256_of(found, array, bar)
            differs = f"sha256 {sha256[:12]}… found, {array.sha256[:12] or 'none'}… expected"
            require_undamaged(
                sha256 == array.sha256, found.path, f": /{name} is damaged: {differs}"
            )
            if name.endswith(OFFSETS):
                require_undamaged(
                    (np.diff(found.map(array)) >= 0).all(), found.path, f": /{name} go backwards"
                )
    return found


def _sha256_of(found: Layout, array: Array, bar: tqdm) -> str:
    sha256, left, buffer = hashlib.sha256(), array.n_bytes, memoryview(bytearray(BLOCK_BYTES))
    with open(
        found.path, "rb", buffering=0
    ) as file:  # not mapped: a file cut meanwhile is no SIGBUS
        file.seek(array.offset)
        while left:
            n_read = file.readinto(buffer[: min(left, BLOCK_BYTES)])
            require(
                n_read,
                f"{found.path}: {array.name} ends {left} bytes early: cut while it was read.",
            )
            sha256.update(buffer[:n_read])
            bar.update(n_read)
            left -= n_read
    return sha256.hexdigest()


def key_of(path: Path) -> str:
    """A file name for what belongs to this version of a file: by its size, time of change and name."""
    stat = os.stat(path)
    return f"{stat.st_size:x}-{stat.st_mtime_ns:x}-{path.name}"


def fingerprint(path: str | Path, verified: Layout | None = None) -> dict[str, Any]:
    """What the file is by its content: `sha256` over all arrays' hashes, `n`, `path`, `size_bytes`,
    `mtime_ns`.

    The bytes are verified once per (path, size, mtime), unless they just were: `verified`. The answer is kept in the
    user's cache directory.

    Raises:
        DataFileError: as `verify`.
    """
    path = Path(path).resolve()
    version = {
        "path": str(path),
        "size_bytes": file_identity(path)[0],
        "mtime_ns": os.stat(path).st_mtime_ns,
    }
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab" / "fingerprints"
    )
    note = cache / key_of(path)
    if verified is None:
        with suppress(OSError, ValueError):
            return json.loads(note.read_text(encoding="utf-8")) | version
        verified = verify_file(path)
    lines = [
        f"{name} {array.dtype.str} {array.shape} {array.sha256}"
        for name, array in sorted(verified.every.items())
    ]
    known = {
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "n": verified.n,
    } | version
    with suppress(
        OSError
    ):  # a full or read-only home costs the next run a second reading, nothing else
        cache.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(known), encoding="utf-8")  # half of it is no JSON, so read again
    return known


def verify_command(project: Project, args: list[str]) -> None:
    parser = add_file_argument("verify", "checks every byte of a data file")
    parser.add_argument("--json", action="store_true", help='for scripts: {"sha256": ...}')
    options = parser.parse_args(args)
    path = data_file_of(project, options.name)
    try:
        found = verify_file(path)
    except DataFileError as error:
        raise Failed(str(error)) from error
    if options.json:
        print(json.dumps({"sha256": fingerprint(path, found)["sha256"]}))
        return
    print(
        f"{path}: all {found.n} samples are as they were written, sha256 {fingerprint(path, found)['sha256']}"
    )
