"""Checks every byte of data files against their hashes; the fingerprint of their content."""

import hashlib
import sys
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
from tqdm import tqdm

from ...machine.progress import byte_progress
from .attributes import meaning_lines
from .errors import damaged
from .hashes import keep_hash, read_hash, version_key
from .layout import BLOCK_BYTES, OFFSETS, Array, Layout, read_layout


class PartFingerprint(TypedDict):
    """One of several files that are read as one."""

    path: str
    sha256: str
    n: int
    size_bytes: int
    mtime_ns: int
    pack: str  # the command that made it


class Fingerprint(TypedDict):
    """What a data file is by its content, as it stands in the record of a run."""

    sha256: str  # over the hashes of all arrays, and the attributes that say what they mean
    n: int  # samples
    path: str
    size_bytes: int
    mtime_ns: int
    pack: str  # the command that made it
    rows: NotRequired[dict[str, str]]  # a hash for each split that is not the file's own
    files: NotRequired[list[PartFingerprint]]  # where there are several


def verify_file(path: str | Path) -> Layout:
    """Reads all arrays (about 1 GB/s) and compares their hashes.

    Raises:
        DataFileError: names the array that differs, or what else is wrong with the file.
    """
    layout = read_layout(path)
    verify_layout(layout)
    return layout


def verify_layout(layout: Layout) -> None:
    """`verify_file` of data that are open already, whoever has their names now."""
    for part in layout.parts:
        _verify_part(part)


def _verify_part(layout: Layout) -> None:
    with byte_progress(f"verifying {layout.path.name}", layout.size_bytes) as bar:
        for name, array in layout.arrays_by_path.items():
            sha256 = _sha256_of(layout, array, bar)
            if sha256 != array.sha256:
                expected = array.sha256[:12] or "none"
                raise damaged(
                    layout.path,
                    f"/{name} is damaged: sha256 {sha256[:12]}… found, {expected}… expected",
                )
    for name in filter(layout.is_ragged, layout.fields):
        if (np.diff(layout.map(layout.arrays[name + OFFSETS])) < 0).any():
            raise damaged(layout.path, f"/data/{name + OFFSETS} go backwards")


def _sha256_of(layout: Layout, array: Array, bar: tqdm) -> str:
    sha256 = hashlib.sha256()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    offset = array.offset
    end = array.offset + array.n_bytes
    # Not mapped: a file that is cut meanwhile would end this process with SIGBUS.
    while offset < end:
        n_read = layout.file.read_into(buffer[: min(end - offset, BLOCK_BYTES)], offset)
        if not n_read:
            raise damaged(
                layout.path, f"{array.name} was cut by {end - offset} bytes while it was read"
            )
        sha256.update(buffer[:n_read])
        bar.update(n_read)
        offset += n_read
    return sha256.hexdigest()


def verify_if_written_to(layout: Layout) -> None:
    """Before each reading of the memory map: costs 1 µs, unless the file was written to or touched.

    Raises:
        DataFileError: the file was cut short, or its content is not what it was.
    """
    for part in layout.parts:
        if part.file.is_unchanged():
            continue
        print(
            f"lab: {part.path} was written to, or touched, while it is read. Checking its content.",
            file=sys.stderr,
        )
        part.file.accept_changes()
        _verify_part(part)


def fingerprint(path: str | Path | Layout, verified: bool = False) -> Fingerprint:
    """What the file is by its content.

    The bytes are verified once for each version of the file, unless they just were (`verified`).
    The answer is kept in the user's cache directory.

    Args:
        path: the file, or the layout of one that is open, whoever has its name now.

    Raises:
        DataFileError: as `verify_file`.
    """
    layout = path if isinstance(path, Layout) else read_layout(path)
    parts = [_part_fingerprint(part, verified) for part in layout.parts]
    whole = Fingerprint(
        sha256=sha256_of_hashes(layout),
        n=layout.n_samples,
        path=str(layout.path.resolve()),
        size_bytes=layout.size_bytes,
        mtime_ns=max(part["mtime_ns"] for part in parts),
        pack=str(layout.attrs.get("command", "")),
    )
    if len(parts) > 1:
        whole["files"] = parts
    return whole


def _part_fingerprint(part: Layout, verified: bool) -> PartFingerprint:
    sha256 = sha256_of_hashes(part)
    key = version_key(part.file.handle)
    if read_hash(key) != sha256:
        if not verified:
            _verify_part(part)
        keep_hash(key, sha256)
    return PartFingerprint(
        path=str(part.path.resolve()),
        sha256=sha256,
        n=part.n_samples,
        size_bytes=part.size_bytes,
        mtime_ns=part.file.mtime_ns,
        pack=str(part.attrs.get("command", "")),
    )


def sha256_of_hashes(layout: Layout) -> str:
    """The hash of a data file's content, made from the hashes in it and from the attributes that say
    what the data mean. Only `verify_layout` shows that the hashes are right.

    Several files have one that is made from theirs.
    """
    if len(layout.parts) > 1:
        return sha256_of_files([sha256_of_hashes(part) for part in layout.parts])
    meaning = meaning_lines(layout.attrs, layout.arrays_by_path)
    return _sha256_of_lines(_array_lines(layout) + meaning)


def sha256_of_files(hashes: list[str]) -> str:
    """The hash of a data set from those of its files."""
    return hashes[0] if len(hashes) == 1 else _sha256_of_lines(hashes)


def sha256_of_arrays(layout: Layout) -> str:
    """The hash of the values alone, whatever they are said to mean."""
    if len(layout.parts) > 1:
        return _sha256_of_lines([sha256_of_arrays(part) for part in layout.parts])
    return _sha256_of_lines(_array_lines(layout))


def _array_lines(layout: Layout) -> list[str]:
    return [
        f"{name} {array.dtype.str} {array.shape} {array.sha256}"
        for name, array in sorted(layout.arrays_by_path.items())
    ]


def _sha256_of_lines(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="backslashreplace")).hexdigest()


def hash_of_rows(rows: np.ndarray) -> str:
    """The hash of the rows of a file that make a split, in any order."""
    return hashlib.sha256(np.sort(rows).astype("<i8").tobytes()).hexdigest()
