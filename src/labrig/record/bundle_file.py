"""The file of a git bundle: a header that ends with an empty line, then a pack with its hash."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .git import Git

HEADER_BYTES = 1 << 20  # more than any header
READ_BYTES = 1 << 20


def is_complete(path: Path) -> bool:
    """Whether a bundle is there and its pack has the hash that stands at its end."""
    try:
        start = pack_start(path)
        with open(path, "rb") as file:
            pack_hash = hash_of_pack(file.read(start))
            left_bytes = os.path.getsize(path) - start - pack_hash.digest_size
            while left_bytes > 0:
                chunk = file.read(min(left_bytes, READ_BYTES))
                pack_hash.update(chunk)
                left_bytes -= len(chunk) or left_bytes
            return file.read() == pack_hash.digest()
    except (OSError, ValueError):
        return False


def pack_start(path: Path) -> int:
    """Where the pack of a bundle begins, in bytes.

    Raises:
        ValueError: the file does not begin as a bundle does.
    """
    with open(path, "rb") as file:
        beginning = file.read(HEADER_BYTES)
    end_of_header = beginning.find(b"\n\n")
    if not beginning.startswith(b"# v") or end_of_header < 0:
        raise ValueError(f"{path} is no bundle")
    return end_of_header + 2


def hash_of_pack(header: bytes) -> hashlib._Hash:
    """The hash that the repository of a bundle uses."""
    return hashlib.sha256() if b"\n@object-format=sha256\n" in header else hashlib.sha1()


def unpack_bundle(git: Git, path: Path) -> None:
    """Adds the objects of a bundle to a repository; nothing when the bundle is missing or cut.

    `git fetch` would want the whole history before them, which a shallow clone never had.
    """
    if not is_complete(path):
        return
    with open(path, "rb", buffering=0) as file:
        file.seek(pack_start(path))
        git.run("index-pack", "--stdin", "--fix-thin", file=file)
