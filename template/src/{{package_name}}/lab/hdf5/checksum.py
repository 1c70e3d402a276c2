# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks every byte of a data file against the hashes it carries, and names its content by one hash."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .file_layout import OFFSETS, Array, Layout, layout, require
from .writer import BLOCK_BYTES


def verify(path: str | Path, progress: Callable[[int], Any] = lambda n_bytes: None) -> Layout:
    """Reads all arrays (about 1 GB/s) and compares their sha256; `progress` is told the bytes of each block.

    Raises:
        DataFileError: naming the array that differs, or what else is wrong with the file.
    """
    found = layout(path)
    for name, array in _all(found).items():
        sha256, where = _sha256_of(found, array, progress), f"{path}: /{name}"
        differs = f"is damaged: sha256 {sha256[:12]}… found, {array.sha256[:12] or 'none'}… expected"
        require(sha256 == array.sha256, f"{where} {differs}. Copy the file again, or pack it again.")
        if name.endswith(OFFSETS):
            offsets = found.map(array)
            require((offsets[1:] >= offsets[:-1]).all(), f"{where} go backwards. Pack the file again.")
    return found


def _all(found: Layout) -> dict[str, Array]:
    arrays = {f"data/{name}": array for name, array in found.arrays.items()}
    return arrays | {f"splits/{name}": array for name, array in found.splits.items()}


def _sha256_of(found: Layout, array: Array, progress: Callable[[int], Any]) -> str:
    sha256, left, buffer = hashlib.sha256(), array.n_bytes, memoryview(bytearray(BLOCK_BYTES))
    with open(found.path, "rb", buffering=0) as file:  # not mapped: a file cut meanwhile is no SIGBUS
        file.seek(array.offset)
        while left:
            n_read = file.readinto(buffer[: min(left, BLOCK_BYTES)])
            require(n_read, f"{found.path}: {array.name} ends {left} bytes early: cut while it was read.")
            sha256.update(buffer[:n_read])
            progress(n_read)
            left -= n_read
    return sha256.hexdigest()


def fingerprint(path: str | Path) -> dict[str, Any]:
    """What the file is by its content: `sha256` over all arrays' hashes, `n`, `path`, `size_bytes`,
    `mtime_ns`.

    The bytes are verified once per (path, size, mtime); the answer is kept in the user's cache directory.

    Raises:
        DataFileError: as `verify`.
    """
    path = Path(path).resolve()
    try:
        known = json.loads(_note(path).read_text(encoding="utf-8"))
        if known | _stat(path) == known:
            return known
    except (OSError, ValueError):
        pass
    return remember(verify(path))


def remember(verified: Layout) -> dict[str, Any]:
    """Keeps the fingerprint of a file whose bytes were just verified or written."""
    path = verified.path.resolve()
    arrays = sorted(_all(verified).items())
    lines = [f"{name} {array.dtype.str} {array.shape} {array.sha256}" for name, array in arrays]
    known = {"sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(), "n": verified.n} | _stat(path)
    temporary = _note(path).with_suffix(f".{os.getpid()}")
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(known), encoding="utf-8")
        os.replace(temporary, _note(path))
    except OSError:  # a full or read-only home costs the next run a second reading, nothing else
        with suppress(OSError):
            temporary.unlink()
    return known


def tell_change(now: dict[str, Any]) -> None:
    """Prints one line when the trial's run before this one (LAB_RUN_DIR) had other data, by its record."""
    run_dir = Path(os.environ.get("LAB_RUN_DIR") or "/nowhere/none")
    for run in sorted(run_dir.parent.glob("*"), reverse=True):  # names begin with the time
        for start in sorted(run.glob("attempts/*/start.json"), key=lambda path: -int(path.parent.name)):
            try:
                before = json.loads(start.read_text(encoding="utf-8")).get("data")
            except (OSError, ValueError):
                continue
            if before:
                if before["sha256"] != now["sha256"]:
                    hashes = f"sha256 {before['sha256'][:12]}… then, {now['sha256'][:12]}… now"
                    print(f"lab: the data file changed since run {run.name}: {hashes} ({now['path']})", file=sys.stderr)
                return


def _stat(path: Path) -> dict[str, Any]:
    stat = os.stat(path)
    return {"path": str(path), "size_bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _note(path: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab" / "fingerprints"
    return cache / f"{hashlib.sha256(str(path).encode()).hexdigest()[:32]}.json"
