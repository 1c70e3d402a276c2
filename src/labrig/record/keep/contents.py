"""The bytes of a file a block at a time, with those of what it has compressed."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

BLOCK_BYTES = 16 << 20
OVERLAP_BYTES = 1 << 16  # of two blocks, so that what lies across their border is whole in one
# By how such files begin, whatever they are called.
COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
ZIP = b"PK\3\4"
# zstd, lz4, 7z, RAR, compress
UNKNOWN = (b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x1f\x9d")
# A page of lab report holds its data so, see report/figures.py.
PACKED = re.compile(rb'<script type="text/plain" id="[^"]*">([A-Za-z0-9+/=]+)</script>')
UNREADABLE = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def holds_any(path: Path, texts: list[bytes]) -> bool:
    """Whether a file, or what it has compressed, holds one of `texts`."""
    return any(text in block for block in blocks_of(path) for text in texts)


def blocks_of(path: Path) -> Iterator[bytes]:
    """The bytes of a file, then those of what it has compressed; one block overlaps the next.

    What is damaged or encrypted ends where it cannot be read.
    """
    with open(path, "rb") as file:
        yield from blocks_in(file)
    try:
        for stream in streams_in(path):
            yield from blocks_in(stream)
    except UNREADABLE:
        return


def holds_unread(path: Path) -> bool:
    """Whether `blocks_of` passes over a part of a file: damaged, encrypted, packed twice or in another way."""
    with open(path, "rb") as file:
        begin = file.read(8)
    if begin.startswith(UNKNOWN) or (begin.startswith(ZIP) and not zipfile.is_zipfile(path)):
        return True
    try:
        for stream in streams_in(path):
            if stream.read(8).startswith((*COMPRESSED, ZIP, *UNKNOWN)):
                return True
            while stream.read(BLOCK_BYTES):
                pass
    except UNREADABLE:
        return True
    return False


def blocks_in(stream: IO[bytes]) -> Iterator[bytes]:
    tail = b""
    while block := stream.read(BLOCK_BYTES):
        yield tail + block
        tail = block[-OVERLAP_BYTES:]


def streams_in(path: Path) -> Iterator[IO[bytes]]:
    """What a file has compressed: its one content, the members of a zip file, the data of a report."""
    with open(path, "rb") as file:
        begin = file.read(8)
    openers = [opener for start, opener in COMPRESSED.items() if begin.startswith(start)]
    if openers:
        with openers[0](path, "rb") as stream:
            yield stream
    elif path.suffix == ".html":
        for packed in PACKED.findall(path.read_bytes()):
            yield io.BytesIO(zlib.decompress(base64.b64decode(packed)))
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    yield stream
