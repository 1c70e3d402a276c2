"""`lab data bench`: measures how fast each disk reads a data file."""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from ...machine.disk import filesystem_type, node_local_directory
from ...project import Project
from ..file.find import data_files_of, parser_for_one_file
from ..file.layout import BLOCK_BYTES, Array, Layout, read_layout

COPY_BYTES = 256 << 20
RANDOM_S = 1.0


@dataclass(frozen=True)
class DiskSpeed:
    """How fast a copy of the file was read."""

    in_order_MBps: float
    random_samples_per_s: float


def disks_command(project: Project, args: list[str]) -> None:
    parser = parser_for_one_file("bench", "measures how fast each disk reads a data file")
    layout = read_layout(data_files_of(project, parser.parse_args(args).name)[0])
    size_MB = layout.size_bytes / 1e6
    print(f"{layout.path}, {size_MB:.1f} MB; read from a cold cache where that is allowed")
    directories = {
        "data": layout.path.parent,
        "home": Path.home(),
        "scratch": project.paths.scratch,
        "node-local": node_local_directory(),
        "/dev/shm": Path("/dev/shm"),
    }
    for name, directory in directories.items():
        if directory is None or not os.access(directory, os.W_OK):
            print(f"  {name:<11} not here, or not writable")
            continue
        speed = measure(layout, directory)
        print(
            f"  {name:<11} {filesystem_type(directory):<8} {speed.in_order_MBps:8.0f} MB/s, "
            f"{speed.random_samples_per_s:9.0f} samples/s at random"
        )


def measure(layout: Layout, directory: Path) -> DiskSpeed:
    """Reads a copy of the largest field, at most COPY_BYTES of it, in `directory`."""
    array = max(layout.fields.values(), key=lambda array: array.n_bytes)
    sample_bytes = max(1, array.n_bytes // layout.n_samples)
    with tempfile.NamedTemporaryFile(prefix=".lab-bench-", dir=directory) as copy:
        n_bytes = _copy_start(layout.path, array, copy.file)
        return DiskSpeed(
            in_order_MBps=_read_in_order(copy.name, n_bytes),
            random_samples_per_s=_read_at_random(copy.name, n_bytes, sample_bytes),
        )


def _copy_start(path: Path, array: Array, copy: IO[bytes]) -> int:
    """Copies the first COPY_BYTES of `array`; returns how many bytes there were."""
    n_bytes = min(array.n_bytes, COPY_BYTES)
    with open(path, "rb") as source:
        source.seek(array.offset)
        for start in range(0, n_bytes, BLOCK_BYTES):
            copy.write(source.read(min(BLOCK_BYTES, n_bytes - start)))
    copy.flush()
    os.fsync(copy.fileno())
    return n_bytes


def _open_cold(name: str) -> int:
    """Opens a file and drops its pages from the cache."""
    handle = os.open(name, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return handle


def _read_in_order(name: str, n_bytes: int) -> float:
    """MB per second."""
    handle = _open_cold(name)
    buffer = bytearray(BLOCK_BYTES)
    started_s = time.perf_counter()
    while os.readv(handle, [buffer]):
        pass
    spent_s = time.perf_counter() - started_s
    os.close(handle)
    return n_bytes / 1e6 / spent_s


def _read_at_random(name: str, n_bytes: int, sample_bytes: int) -> float:
    """Samples per second, one after the other at random places, for about RANDOM_S."""
    os.close(_open_cold(name))
    values = np.asarray(np.memmap(name, np.uint8, "r"))
    n_read = 0
    started_s = time.perf_counter()
    for start in _random_starts(max(1, n_bytes // sample_bytes), sample_bytes):
        values[start : start + sample_bytes].copy()
        n_read += 1
        spent_s = time.perf_counter() - started_s
        if spent_s >= RANDOM_S:
            break
    return n_read / spent_s


def _random_starts(n_samples: int, sample_bytes: int) -> Iterator[int]:
    rng = np.random.default_rng(0)
    while True:
        yield from rng.integers(0, n_samples, 4096) * sample_bytes
