# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Checks every byte of a data file against its hashes; the fingerprint of its content."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import numpy as np
from tqdm import tqdm

from ..errors import Failed
from ..project import Project
from .file_errors import DataFileError, damaged
from .file_layout import BLOCK_BYTES, OFFSETS, Array, Layout, identity_of, read_layout
from .find import data_file_of, parser_for_one_file
from .progress import byte_progress


class Fingerprint(TypedDict):
    """What a data file is by its content, as it stands in the record of a run."""

    sha256: str  # over the hashes of all arrays
    n: int  # samples
    path: str
    size_bytes: int
    mtime_ns: int


def verify_file(path: str | Path) -> Layout:
    """Reads all arrays (about 1 GB/s) and compares their hashes.

    Raises:
        DataFileError: names the array that differs, or what else is wrong with the file.
    """
    layout = read_layout(path)
    with byte_progress(f"verifying {layout.path.name}", layout.size_bytes) as bar:
        for name, array in layout.arrays_by_path.items():
            sha256 = _sha256_of(layout.path, array, bar)
            if sha256 != array.sha256:
                expected = array.sha256[:12] or "none"
                raise damaged(
                    layout.path,
                    f"/{name} is damaged: sha256 {sha256[:12]}… found, {expected}… expected",
                )
            if name.endswith(OFFSETS) and (np.diff(layout.map(array)) < 0).any():
                raise damaged(layout.path, f"/{name} go backwards")
    return layout


def _sha256_of(path: Path, array: Array, bar: tqdm) -> str:
    sha256 = hashlib.sha256()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    left_bytes = array.n_bytes
    # Not mapped: a file that is cut meanwhile would end this process with SIGBUS.
    with open(path, "rb", buffering=0) as file:
        file.seek(array.offset)
        while left_bytes:
            n_read = file.readinto(buffer[: min(left_bytes, BLOCK_BYTES)])
            if not n_read:
                raise damaged(path, f"{array.name} was cut by {left_bytes} bytes while it was read")
            sha256.update(buffer[:n_read])
            bar.update(n_read)
            left_bytes -= n_read
    return sha256.hexdigest()


def version_key(path: Path) -> str:
    """Names this version of a file: from its size, time of change and name."""
    stat = os.stat(path)
    return f"{stat.st_size:x}-{stat.st_mtime_ns:x}-{path.name}"


def fingerprint(path: str | Path, verified: Layout | None = None) -> Fingerprint:
    """What the file is by its content.

    The bytes are verified once for each version of the file, unless they just were (`verified`).
    The answer is kept in the user's cache directory.

    Raises:
        DataFileError: as `verify_file`.
    """
    path = Path(path).resolve()
    size_bytes = identity_of(path).size_bytes
    mtime_ns = os.stat(path).st_mtime_ns
    cached = _cache_directory() / version_key(path)
    if verified is None:
        with suppress(OSError, ValueError):
            content = json.loads(cached.read_text(encoding="utf-8"))
            return content | {"path": str(path), "size_bytes": size_bytes, "mtime_ns": mtime_ns}
        verified = verify_file(path)
    result = Fingerprint(
        sha256=_sha256_of_hashes(verified),
        n=verified.n_samples,
        path=str(path),
        size_bytes=size_bytes,
        mtime_ns=mtime_ns,
    )
    # A full or read-only home costs the next run a second reading, nothing else.
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_text(json.dumps(result), encoding="utf-8")  # half of it is no JSON: read again
    return result


def _cache_directory() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "lab" / "fingerprints"


def _sha256_of_hashes(layout: Layout) -> str:
    lines = [
        f"{name} {array.dtype.str} {array.shape} {array.sha256}"
        for name, array in sorted(layout.arrays_by_path.items())
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def verify_command(project: Project, args: list[str]) -> None:
    """Checks every byte of a data file.

    Raises:
        Failed: it is damaged.
    """
    parser = parser_for_one_file("verify", "checks every byte of a data file")
    parser.add_argument("--json", action="store_true", help='for scripts: {"sha256": ...}')
    options = parser.parse_args(args)
    path = data_file_of(project, options.name)
    try:
        layout = verify_file(path)
    except DataFileError as error:
        raise Failed(str(error)) from error
    sha256 = fingerprint(path, layout)["sha256"]
    if options.json:
        print(json.dumps({"sha256": sha256}))
        return
    print(f"{path}: all {layout.n_samples} samples are as they were written, sha256 {sha256}")
