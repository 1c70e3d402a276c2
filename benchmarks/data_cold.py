"""Reading a file that is eight times as large as the page cache, from a cold start: blocks, a random map, peers.

    python benchmarks/data_cold.py [--size-MB 2048] [--limit-s 60] [--scratch DIRECTORY]

Each contender reads one epoch in a process of its own, whose memory cgroup leaves it an eighth of the file for
the page cache. The block device's own counters (blkio cgroup) give bytes and requests, so background load does
not count. Needs root and cgroups of version 1. Peers as in data_loading.py; MosaicML Streaming is one more here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from data_loading import Case, format_factor
from data_peers import PEERS, Peer, epochs, tensor
from labrig.data import H5DataModule, write_data_file

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "blkio")
CACHE_SHARE = 8  # the page cache gets one part of so many
NO_LIMIT = 10**12  # bytes per second
SHAPE = (3, 64, 64)
SAMPLE_BYTES = 3 * 64 * 64
BLOCKS = "this, data.order=blocks"
RANDOM = "this, data.order=random"
COLUMNS = ("samples/s", "bytes read / bytes used", "mean request, KB", "part of the epoch read")


def write_ours(directory: Path, x: np.ndarray, y: np.ndarray) -> None:
    write_data_file(directory / "ours.h5", {"x": x, "y": y}, {"train": range(len(x))})


def read_ours(directory: Path, case: Case, order: str) -> Iterator[int]:
    data = H5DataModule(str(directory / "ours.h5"), batch_size=case.batch_size, order=order)
    return epochs(data.train_dataloader())


def write_mds(directory: Path, x: np.ndarray, y: np.ndarray) -> None:
    from streaming import MDSWriter

    columns = {"x": "bytes", "y": "int"}
    with MDSWriter(out=str(directory / "mds"), columns=columns, size_limit="64mb") as out:
        for image, label in zip(x, y, strict=True):
            out.write({"x": image.tobytes(), "y": int(label)})


def read_mds(directory: Path, case: Case) -> Iterator[int]:
    from streaming import StreamingDataLoader, StreamingDataset

    class Stream(StreamingDataset):
        def __getitem__(self, index):
            item = super().__getitem__(index)
            return tensor(item["x"], case), item["y"]

    local = {"local": str(directory / "mds"), "batch_size": case.batch_size}
    dataset = Stream(**local, shuffle=True, num_canonical_nodes=1)
    return epochs(StreamingDataLoader(dataset, batch_size=case.batch_size))


CONTENDERS = {
    BLOCKS: Peer(write_ours, lambda directory, case: read_ours(directory, case, "blocks")),
    RANDOM: Peer(write_ours, lambda directory, case: read_ours(directory, case, "random")),
    "WebDataset": PEERS["WebDataset"],
    "LitData": PEERS["LitData"],
    "MosaicML Streaming": Peer(write_mds, read_mds),
}


def write_files(name: str, directory: Path, n: int) -> None:
    """The files of one contender; the samples are those of every other one."""
    rng = np.random.default_rng(0)
    x = np.frombuffer(rng.bytes(n * SAMPLE_BYTES), np.uint8).reshape(n, *SHAPE)
    CONTENDERS[name].write(directory, x, rng.integers(0, 10, n))


def drop_cache(directory: Path) -> None:
    """Writes the files to the disk and forgets their pages; those of other files stay."""
    for path in directory.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


class Cgroup:
    """This process alone in a memory and a blkio cgroup.

    Args:
        disk: a folder on the disk whose reads are counted.
    """

    def __init__(self, disk: Path) -> None:
        name = f"labrig-data-cold-{os.getpid()}"
        self.memory, self.blkio = (CGROUPS / controller / name for controller in CONTROLLERS)
        for directory in (self.memory, self.blkio):
            directory.mkdir()
            (directory / "cgroup.procs").write_text(str(os.getpid()))
        device = os.stat(disk).st_dev
        limit = (
            f"{os.major(device)}:{os.minor(device)} {NO_LIMIT}"  # without one nothing is counted
        )
        (self.blkio / "blkio.throttle.read_bps_device").write_text(limit)

    def leave_for_cache(self, n_bytes: int) -> None:
        """Limits the memory to what the process has for itself now, and so many bytes."""
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        own_bytes = int(status["RssAnon"].split()[0]) * 1024
        (self.memory / "memory.limit_in_bytes").write_text(str(own_bytes + n_bytes))

    def device_reads(self) -> tuple[int, int]:
        """Bytes and requests that block devices served to this process so far."""
        totals = []
        for name in ("io_service_bytes", "io_serviced"):
            lines = (self.blkio / f"blkio.throttle.{name}").read_text().splitlines()
            totals.append(sum(int(line.split()[2]) for line in lines if " Read " in line))
        return totals[0], totals[1]


def read_epoch(name: str, directory: Path, n: int, limit_s: float) -> dict[str, float]:
    """One epoch, or as much of it as `limit_s` allows."""
    import torch

    torch.set_num_threads(1)
    case = Case("12 KB", n, SHAPE, np.uint8, 64)
    stream = CONTENDERS[name].read(directory, case)
    drop_cache(directory)
    cgroup = Cgroup(directory)
    # What the process makes while it reads, such as its batches, is no cache.
    cgroup.leave_for_cache(n * SAMPLE_BYTES // CACHE_SHARE + (64 << 20))
    bytes_before, requests_before = cgroup.device_reads()
    started_s = time.perf_counter()
    samples = 0
    while samples < n and time.perf_counter() - started_s < limit_s:
        samples += next(stream)
    passed_s = time.perf_counter() - started_s
    bytes_after, requests_after = cgroup.device_reads()
    read_bytes = bytes_after - bytes_before
    n_requests = max(1, requests_after - requests_before)
    values = (
        samples / passed_s,
        read_bytes / (samples * SAMPLE_BYTES),
        read_bytes / n_requests / 1000,
        samples / n,
    )
    return dict(zip(COLUMNS, values, strict=True))


def run_child(mode: str, name: str, directory: Path, n: int, limit_s: float) -> dict | None:
    words = [mode, name, str(directory), str(n), str(limit_s)]
    done = subprocess.run(
        [sys.executable, __file__, "--child", *words], stdout=subprocess.PIPE, text=True
    )
    for controller in CONTROLLERS:
        for left in (CGROUPS / controller).glob("labrig-data-cold-*"):
            left.rmdir()
    if done.returncode:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def child(mode: str, name: str, directory: str, n: str, limit_s: str) -> None:
    result: dict | list = []
    if mode == "write":
        write_files(name, Path(directory), int(n))
    else:
        result = read_epoch(name, Path(directory), int(n), float(limit_s))
    print(json.dumps(result), flush=True)
    os._exit(0)  # threads of peers may not end


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--size-MB", dest="size_MB", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=60, help="of one contender")
    parser.add_argument("--scratch", type=Path, help="a folder on the disk that is measured")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
    n = options.size_MB * 10**6 // SAMPLE_BYTES
    print(f"{n} samples of {SAMPLE_BYTES} bytes, page cache {options.size_MB // CACHE_SHARE} MB")
    print(f"\n| | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    for name in CONTENDERS:
        with tempfile.TemporaryDirectory(dir=options.scratch) as directory:
            place = Path(directory)
            if run_child("write", name, place, n, 0) is None:
                print(f"| {name} | left out: see the error above |", flush=True)
                continue
            for _ in range(options.rounds):
                row = run_child("read", name, place, n, options.limit_s)
                cells = [format_factor(value) for value in (row or {}).values()]
                print(f"| {name} | {' | '.join(cells) or 'failed'} |", flush=True)


if __name__ == "__main__":
    main()
