"""What reading in blocks does to a training: test accuracy over seeds, by order and by source data.

    python benchmarks/data_order.py [--seeds 20]

The digits of scikit-learn, once sorted by class and once shuffled, as a file each. Blocks of 4 samples, so that
an epoch has 22 groups of blocks, and a small network, trained for 5 epochs. Prints a table of Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from labrig.data import H5Dataset, Loader, Order, write_data_file
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

N_TRAIN = 1400
BATCH_SIZE = 32
N_EPOCHS = 5
BLOCK = 4
ORDERS = {
    "random": {"shuffle": True},
    "blocks": {"shuffle": True, "block": BLOCK},
    "as the file lies": {},
}


def write_digits(path: Path, is_sorted: bool) -> Path:
    """Digits whose training rows are shuffled, or sorted by class; the test rows are the same."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    train = order[:N_TRAIN]
    if is_sorted:
        train = train[np.argsort(digits.target[train], kind="stable")]
    rows = np.concatenate([train, order[N_TRAIN:]])
    fields = {"x": digits.data[rows].astype(np.float32), "y": digits.target[rows]}
    splits = {"train": range(N_TRAIN), "test": range(N_TRAIN, len(rows))}
    return write_data_file(path, fields, splits)


def accuracy(path: Path, order: dict, seed: int) -> float:
    """Test accuracy in percent of a network that was trained with one seed."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    loader = Loader(H5Dataset(path, "train"), Order(N_TRAIN, BATCH_SIZE, seed, **order))
    for _ in range(N_EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(network(x / 16), y).backward()
            optimizer.step()
    test = H5Dataset(path, "test")
    x, y = test.__getitems__(range(len(test)))
    with torch.no_grad():
        return 100 * (network(x / 16).argmax(1) == y).double().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("accuracy in % (standard deviation) | shuffled source | source sorted by class\n-|-|-")
    with tempfile.TemporaryDirectory() as folder:
        files = [
            write_digits(Path(folder) / f"{is_sorted}.h5", is_sorted) for is_sorted in (False, True)
        ]
        for name, order in ORDERS.items():
            cells = []
            for file in files:
                values = [accuracy(file, order, seed) for seed in range(options.seeds)]
                cells.append(f"{statistics.mean(values):.2f} ({statistics.stdev(values):.2f})")
            print(f"{name} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
