"""Checks every byte of a data file against its hashes; the fingerprint of its content."""

import hashlib
import json
import sys
from pathlib import Path
from typing import TypedDict

import numpy as np
from tqdm import tqdm

from ..errors import Failed
from ..project import Project
from .file_errors import DataFileError, damaged
from .file_layout import BLOCK_BYTES, OFFSETS, Array, Layout, read_layout
from .find import data_file_of, parser_for_one_file
from .folder_fingerprint import fingerprint_folder
from .progress import byte_progress
from .version_cache import keep_hash, read_hash, version_key


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
    verify_layout(layout)
    return layout


def verify_layout(layout: Layout) -> None:
    """`verify_file` of a file that is open already, whoever has its name now."""
    with byte_progress(f"verifying {layout.path.name}", layout.size_bytes) as bar:
        for name, array in layout.arrays_by_path.items():
            sha256 = _sha256_of(layout, array, bar)
            if sha256 != array.sha256:
                expected = array.sha256[:12] or "none"
                raise damaged(
                    layout.path,
                    f"/{name} is damaged: sha256 {sha256[:12]}… found, {expected}… expected",
                )
            if name.endswith(OFFSETS) and (np.diff(layout.map(array)) < 0).any():
                raise damaged(layout.path, f"/{name} go backwards")


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
    if layout.file.is_unchanged():
        return
    print(
        f"lab: {layout.path} was written to, or touched, while it is read. Checking its content.",
        file=sys.stderr,
    )
    layout.file.accept_changes()
    verify_layout(layout)


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
    sha256 = sha256_of_hashes(layout)
    key = version_key(layout.file.handle)
    if read_hash(key) != sha256:
        if not verified:
            verify_layout(layout)
        keep_hash(key, sha256)
    return Fingerprint(
        sha256=sha256,
        n=layout.n_samples,
        path=str(layout.path.resolve()),
        size_bytes=layout.size_bytes,
        mtime_ns=layout.file.mtime_ns,
    )


def sha256_of_hashes(layout: Layout) -> str:
    """The hash of a data file's content, made from the hashes in it. Only `verify_layout` shows that
    they are right.
    """
    lines = [
        f"{name} {array.dtype.str} {array.shape} {array.sha256}"
        for name, array in sorted(layout.arrays_by_path.items())
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def verify_command(project: Project, args: list[str]) -> None:
    """Checks every byte of a data file; of a folder it prints the hash of all files.

    Raises:
        Failed: it is damaged.
    """
    parser = parser_for_one_file("verify", "checks every byte of a data file")
    parser.add_argument("--json", action="store_true", help='for scripts: {"sha256": ...}')
    options = parser.parse_args(args)
    path = data_file_of(project, options.name)
    if path.is_dir():
        print_folder(path, options.json)
        return
    try:
        layout = verify_file(path)
    except DataFileError as error:
        raise Failed(str(error)) from error
    sha256 = fingerprint(layout, verified=True)["sha256"]
    if options.json:
        print(json.dumps({"sha256": sha256}))
        return
    print(f"{path}: all {layout.n_samples} samples are as they were written, sha256 {sha256}")


def print_folder(folder: Path, as_json: bool) -> None:
    """Prints the hash of a folder, which says nothing of damage: compare it with a recorded one."""
    content = fingerprint_folder(folder, cached=False)
    if as_json:
        print(json.dumps({"sha256": content["sha256"]}))
        return
    print(f"{content['path']}: {content['n']} files, sha256 {content['sha256']}")
