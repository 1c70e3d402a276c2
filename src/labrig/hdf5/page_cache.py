"""Reads a data file in order, which a network disk serves fastest, into the page cache."""

import os
from contextlib import suppress
from pathlib import Path

from ..machine.memory import memory_limit_bytes
from .file_layout import BLOCK_BYTES

N_PROBES = 64


def read_into_cache(path: Path) -> None:
    """Reads the file once, unless it is cached, or larger than half of the memory limit."""
    size_bytes = path.stat().st_size
    if size_bytes > memory_limit_bytes() / 2:
        return
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
