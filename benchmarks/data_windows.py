"""Random windows of one long sequence of tokens: `data.windows` beside a memory map, and a Dataset of torch.

    python benchmarks/data_windows.py [--rounds 5] [--tokens 100000000]

`memory map` is what small programs for language models do: random places, a slice of the map for each, stacked.
`Dataset` gives the same slices to a DataLoader of torch in the process itself. All give x and y as int64, y one
token later. They take turns; prints CPU time relative to `data.windows`, as a table of Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from labrig.data import H5DataModule, write_data_file
from torch.utils.data import DataLoader, Dataset, RandomSampler

BATCH_SIZE = 32
N_BATCHES = 1000
LENGTHS = (65, 1025)
Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class Windows(Dataset):
    """(x, y) of the tokens from one place on."""

    def __init__(self, tokens: np.ndarray, length: int) -> None:
        self.tokens = tokens
        self.length = length

    def __len__(self) -> int:
        return len(self.tokens) - self.length

    def __getitem__(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = torch.from_numpy(self.tokens[start : start + self.length].astype(np.int64))
        return window[:-1], window[1:]


def ours(file: Path, raw: Path, length: int) -> Batches:
    data = H5DataModule(
        str(file),
        batch_size=BATCH_SIZE,
        fields=["x"],
        windows={"x": length},
        windows_per_epoch=N_BATCHES * BATCH_SIZE,
    )
    for batch in data.loader("train", shuffle=True):
        window_BT = batch[0].long()
        yield window_BT[:, :-1], window_BT[:, 1:]
    data.teardown("fit")


def memory_map(file: Path, raw: Path, length: int) -> Batches:
    tokens = np.memmap(raw, np.uint16, "r")
    for _ in range(N_BATCHES):
        places = torch.randint(len(tokens) - length, (BATCH_SIZE,)).tolist()
        parts = [torch.from_numpy(tokens[i : i + length].astype(np.int64)) for i in places]
        yield torch.stack([part[:-1] for part in parts]), torch.stack([part[1:] for part in parts])


def dataset(file: Path, raw: Path, length: int) -> Batches:
    windows = Windows(np.memmap(raw, np.uint16, "r"), length)
    sampler = RandomSampler(windows, replacement=True, num_samples=N_BATCHES * BATCH_SIZE)
    yield from DataLoader(windows, BATCH_SIZE, sampler=sampler)


WAYS: dict[str, Callable[[Path, Path, int], Batches]] = {
    "data.windows": ours,
    "memory map": memory_map,
    "Dataset": dataset,
}


def measure(way: str, file: Path, raw: Path, length: int) -> float:
    """CPU seconds of an epoch."""
    began_s = time.process_time()
    n = sum(len(x) for x, _ in WAYS[way](file, raw, length))
    if n != N_BATCHES * BATCH_SIZE:
        raise SystemExit(f"{way} gave {n} windows")
    return time.process_time() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=100_000_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokens = np.random.default_rng(0).integers(0, 50_000, arguments.tokens, np.uint16)
    with tempfile.TemporaryDirectory() as folder:
        raw, file = Path(folder) / "tokens.bin", Path(folder) / "tokens.h5"
        tokens.tofile(raw)
        write_data_file(file, {"x": [tokens, tokens[:100]]}, {"train": [0], "val": [1]})
        print(f"tokens of a window | {' | '.join(WAYS)}\n-|{'-|' * len(WAYS)}")
        for length in LENGTHS:
            rounds = [
                {way: measure(way, file, raw, length) for way in WAYS}
                for _ in range(arguments.rounds)
            ]
            ratios = [
                statistics.median(one[way] / one["data.windows"] for one in rounds) for way in WAYS
            ]
            print(f"{length} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)}", flush=True)


if __name__ == "__main__":
    main()
