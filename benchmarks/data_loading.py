"""How fast samples reach the training loop: this data path against its peers, in one run.

    python benchmarks/data_loading.py [--rounds 5] [--figure docs/img/data_loading.svg] [--scratch DIRECTORY]

Rounds are interleaved over the contenders in random order; each number is the median over the rounds of a
same-round ratio of samples per CPU-second (of the busiest process). Warm cache, one thread of arithmetic.
Peers come from benchmarks/requirements.txt; one that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import data_audio
import h5py
import numpy as np
import torch
from data_packing import packing_MB_per_cpu_s
from data_peers import PEERS, epochs, items
from labrig.data import H5Dataset, Loader, Order, as_is, write_data_file
from torch.utils.data import DataLoader, TensorDataset

LIMIT = "NumPy in RAM"
OURS = "this, DataLoader"
WITH_THREAD = "this, with its thread"
WORKERS = "this, 2 workers"
IN_RAM = "TensorDataset in RAM"
NAIVE = "naive h5py"
ROUND_S = 1.0


@dataclass
class Case:
    """Samples of one size, read in batches."""

    name: str
    n: int
    shape: tuple[int, ...]
    dtype: type
    batch_size: int


CASES = [
    Case("12 KB", 20_000, (3, 64, 64), np.uint8, 64),
    Case("150 KB", 2_000, (3, 224, 224), np.uint8, 64),
    Case("256 B", 200_000, (64,), np.float32, 256),
]
LEAST = {  # how many times faster than each this should be at least, per case; None: not measured
    LIMIT: (0.60, 0.80, 0.40),
    IN_RAM: (1.8, 1.1, 8),
    WORKERS: (2.5, 1.5, 5),
    NAIVE: (7, 2, 35),
    "group per sample (HDF5)": (60, 10, None),
    "LitData": (5, 3, 30),
    "LMDB": (10, 5, 10),
    "WebDataset": (30, 8, 300),
    "HF datasets": (20, 10, 30),
    "zarr 3, sharded": (100, 20, 1000),
    "JPEG files": (30, 12, None),
}


def pictures(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Smooth noise, which JPEG compresses about as it does photographs; plain noise for other shapes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, case.n)
    if len(case.shape) == 1:
        return rng.normal(size=(case.n, *case.shape)).astype(case.dtype), labels
    x = np.empty((case.n, *case.shape), np.uint8)
    factor = case.shape[1] // 16
    for i in range(case.n):
        coarse = rng.integers(0, 230, (3, 16, 16)).repeat(factor, 1).repeat(factor, 2)
        x[i] = coarse + rng.integers(0, 25, case.shape)
    return x, labels


def contenders(case: Case, directory: Path) -> dict[str, Iterator[int]]:
    """Endless streams of batch sizes by name."""
    x, y = pictures(case)
    file = write_data_file(directory / "ours.h5", {"x": x, "y": y}, {"train": range(case.n)})
    streams = {LIMIT: _numpy(x, y, case.batch_size)}
    streams |= our_ways(file, case)
    streams |= plain_ways(file, case, x, y)
    streams |= peers(directory, case, x, y)
    for _ in range(case.n // case.batch_size):  # the first touch of a page costs a fault
        next(streams[OURS])
    return streams


def our_ways(file: Path, case: Case) -> dict[str, Iterator[int]]:
    dataset = H5Dataset(file, "train")
    options = {"batch_size": case.batch_size, "shuffle": True, "collate_fn": as_is}
    workers = {"num_workers": 2, "persistent_workers": True}
    return {
        OURS: epochs(DataLoader(dataset, **options)),
        WITH_THREAD: epochs(Loader(dataset, Order(case.n, case.batch_size, shuffle=True))),
        WORKERS: epochs(DataLoader(dataset, **options, **workers)),
    }


def plain_ways(file: Path, case: Case, x: np.ndarray, y: np.ndarray) -> dict[str, Iterator[int]]:
    """What one writes without this data path: arrays in RAM, and h5py item by item."""
    group = h5py.File(file, locking=False)["data"]
    stored_x = group["x"]
    stored_y = group["y"]
    in_ram = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return {
        IN_RAM: epochs(DataLoader(in_ram, batch_size=case.batch_size, shuffle=True)),
        NAIVE: items(case.n, lambda i: (torch.from_numpy(stored_x[i]), int(stored_y[i])), case),
    }


def peers(directory: Path, case: Case, x: np.ndarray, y: np.ndarray) -> dict[str, Iterator[int]]:
    streams = {}
    for name, peer in PEERS.items():
        if LEAST[name][CASES.index(case)] is None:
            continue
        n = 4000 if name.startswith("group") else case.n
        try:
            peer.write(directory, x[:n], y[:n])
            streams[name] = peer.read(directory, case)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return streams


def _numpy(x: np.ndarray, y: np.ndarray, batch_size: int) -> Iterator[int]:
    rng = np.random.default_rng(0)
    while True:
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch_size):
            rows = order[start : start + batch_size]
            _ = torch.from_numpy(x[rows]), torch.from_numpy(y[rows])
            yield len(rows)


def rate(stream: Iterator[int]) -> float:
    """Samples per CPU-second of the busiest process, over about ROUND_S."""
    samples = 0
    before = _cpu_s()
    started_s = time.perf_counter()
    while time.perf_counter() - started_s < ROUND_S:
        samples += next(stream)
    spent = [after - start for after, start in zip(_cpu_s(), before, strict=True)]
    return samples / max(spent)


def _cpu_s() -> list[float]:
    """CPU seconds of this process, and of a worker."""
    ticks = 0
    for path in Path("/proc/self/task").glob("*/children"):
        for pid in path.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return [time.process_time(), ticks / os.sysconf("SC_CLK_TCK") / 2]


def measure(streams: dict[str, Iterator[int]], rounds: int) -> dict[str, list[float]]:
    for stream in streams.values():  # warms the cache, starts the workers
        rate(stream)
    rates = {name: [] for name in streams}
    for _ in range(rounds):
        for name in random.sample(list(streams), len(streams)):
            rates[name].append(rate(streams[name]))
    return rates


def ratio(rates: dict[str, list[float]], name: str, to: str) -> float:
    return statistics.median(a / b for a, b in zip(rates[name], rates[to], strict=True))


def table(title: str, rates: dict[str, list[float]], least: dict[str, float | None]) -> list[str]:
    """One case as lines of Markdown: samples per CPU-second, ours over theirs, expected, whether it holds."""
    # a user's two ways to read; the faster counts
    ways = [name for name in (OURS, WITH_THREAD) if name in rates]
    ours = max(ways, key=lambda name: statistics.median(rates[name]))
    lines = [f"\n### {title}\n", f"| | samples per CPU-s | {ours} is faster by | expected | |"]
    lines.append("|---|---:|---:|---:|---|")
    for name in sorted(rates, key=lambda name: -statistics.median(rates[name])):
        faster = ratio(rates, ours, name)
        expected = least.get(name)
        verdict = ""
        if expected is not None:
            verdict = "holds" if faster >= expected else "MISSED"
        factor = "" if name in ways else format_factor(faster)
        rate_text = f"{statistics.median(rates[name]):,.0f}"
        lines.append(f"| {name} | {rate_text} | {factor} | {expected or ''} | {verdict} |")
    return lines


def format_factor(factor: float) -> str:
    return f"{factor:.2f}" if factor < 10 else f"{factor:.0f}"


def waited_ms(file: Path, case: Case, step_s: float = 0.010) -> float:
    """Mean milliseconds that a loop with steps of 10 ms waits for a batch."""
    waits = []
    order = Order(case.n, case.batch_size, shuffle=True)
    stream = epochs(Loader(H5Dataset(file, "train"), order))
    for _ in range(200):
        started_s = time.perf_counter()
        next(stream)
        waits.append(time.perf_counter() - started_s)
        time.sleep(step_s)
    return 1000 * statistics.mean(waits[10:])


def figure(path: Path, results: dict[str, dict[str, list[float]]]) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    size = {"figsize": (12, 4.2), "sharey": True, "layout": "constrained"}
    picture, axes = pyplot.subplots(1, len(results), **size)
    names = [*list(LEAST)[:0:-1], WITH_THREAD, OURS, LIMIT]
    for axis, (case, rates) in zip(axes, results.items(), strict=True):
        values = [ratio(rates, name, LIMIT) if name in rates else np.nan for name in names]
        colours = ["tab:orange" if "this" in name else "tab:gray" for name in names]
        axis.barh(names, values, color=colours)
        axis.set(
            xscale="log",
            title=f"{case} a sample",
            xlabel="samples per CPU-second, NumPy in RAM = 1",
        )
        axis.grid(axis="x", alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path)


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--scratch", type=Path, help="where the files go for the time (default: the system's)"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {}
    for k, case in enumerate(CASES):
        with tempfile.TemporaryDirectory(dir=options.scratch) as directory:
            streams = contenders(case, Path(directory))
            rates = results[case.name] = measure(streams, options.rounds)
            least = {name: row[k] for name, row in LEAST.items()}
            title = f"{case.name} a sample, batches of {case.batch_size}"
            print("\n".join(table(title, rates, least)), flush=True)
            streams.clear()
            if len(case.shape) > 1:
                waited = waited_ms(Path(directory) / "ours.h5", case)
                print(f"\nWaited per batch, 10 ms step: {waited:.2f} ms")
    with tempfile.TemporaryDirectory(dir=options.scratch) as directory:
        streams = data_audio.contenders(Path(directory), OURS)
        rates = measure(streams, options.rounds)
        print("\n".join(table("Audio, crops of 1 s out of 1-10 s", rates, data_audio.LEAST)))
        packed_MB = packing_MB_per_cpu_s(Path(directory))
        print(f"\nPacking arrays: {packed_MB:.0f} MB per CPU-second")
    if options.figure:
        figure(options.figure, results)


if __name__ == "__main__":
    main()
