# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab data bench`: measures how fast each disk gives the data."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from ..machine.disk import filesystem_type, node_local_directory
from ..project import Project
from .file_layout import BLOCK_BYTES, Layout, read_layout
from .find import add_file_argument, data_file_of

COPY_BYTES = 256 << 20
RANDOM_S = 1.0


def disks_command(project: Project, args: list[str]) -> None:
    found = read_layout(
        data_file_of(project, add_file_argument("bench", __doc__).parse_args(args).name)
    )
    places = {"data": found.path.parent, "home": Path.home(), "scratch": project.paths["scratch"]}
    places |= {"node-local": node_local_directory(), "/dev/shm": Path("/dev/shm")}
    print(
        f"{found.path}, {found.identity[0] / 1e6:.1f} MB; read from a cold cache where that is allowed"
    )
    for name, directory in places.items():
        if directory is None or not os.access(directory, os.W_OK):
            print(f"  {name:<11} not here, or not writable")
            continue
        with tempfile.NamedTemporaryFile(prefix=".lab-bench-", dir=directory) as copy:
            n_bytes = _copy(found, copy)
            in_order_MBps, random_per_s = (
                _sequential(copy.name, n_bytes),
                _random(found, copy.name, n_bytes),
            )
        kind = filesystem_type(directory)
        print(
            f"  {name:<11} {kind:<8} {in_order_MBps:8.0f} MB/s, {random_per_s:9.0f} samples/s at random"
        )


def _copy(found: Layout, copy: tempfile._TemporaryFileWrapper) -> int:
    """The first part of the largest field, as `copy`; its bytes."""
    array = max(found.fields.values(), key=lambda array: array.n_bytes)
    n_bytes = min(array.n_bytes, COPY_BYTES)
    with open(found.path, "rb") as source:
        source.seek(array.offset)
        for start in range(0, n_bytes, BLOCK_BYTES):
            copy.write(source.read(min(BLOCK_BYTES, n_bytes - start)))
    copy.flush()
    os.fsync(copy.fileno())
    return n_bytes


def _open_cold(name: str) -> int:
    handle = os.open(name, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return handle


def _sequential(name: str, n_bytes: int) -> float:
    handle, buffer = _open_cold(name), bytearray(BLOCK_BYTES)
    started_s = time.perf_counter()
    while os.readv(handle, [buffer]):
        pass
    os.close(handle)
    return n_bytes / 1e6 / (time.perf_counter() - started_s)


def _random(found: Layout, name: str, n_bytes: int) -> float:
    """Samples per second, one after the other at random places, for about RANDOM_S."""
    array = max(found.fields.values(), key=lambda array: array.n_bytes)
    sample_bytes = max(1, array.n_bytes // found.n)
    n_samples = max(1, n_bytes // sample_bytes)
    os.close(_open_cold(name))
    values = np.asarray(np.memmap(name, np.uint8, "r"))
    starts = np.random.default_rng(0).integers(0, n_samples, 1 << 20) * sample_bytes
    started_s, read = time.perf_counter(), 0
    while (spent_s := time.perf_counter() - started_s) < RANDOM_S:
        start = starts[read % len(starts)]
        values[start : start + sample_bytes].copy()
        read += 1
    return read / spent_s
