"""What `data.order=lengths` does to a training: real tokens a second, and padded tokens, against random order.

    python benchmarks/data_lengths.py [--rounds 5]

Made-up texts with lengths as of comments (log-normal, median 60 tokens), batches of 32, padded to the longest;
a small transformer, forward and backward. The two orders take turns; prints the medians as a table of Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from labrig.data import H5DataModule, write_data_file

N = 2000
BATCH_SIZE = 32
N_STEPS = 20
N_WORDS = 1000
ORDERS = ("random", "lengths")


def write_texts(path: Path) -> Path:
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(np.log(60), 0.7, N).astype(int) + 1
    texts = [rng.integers(1, N_WORDS, length).astype(np.int32) for length in lengths]
    return write_data_file(path, {"x": texts}, {"train": range(N)}, order=rng.permutation(N))


class Network(torch.nn.Module):
    """x int64 (B, T) -> scores (B, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(N_WORDS, 64)
        layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(64, 2)

    def forward(self, x_BT: torch.Tensor) -> torch.Tensor:
        is_padding_BT = x_BT == 0
        features_BTC = self.layers(self.embed(x_BT), src_key_padding_mask=is_padding_BT)
        return self.head(features_BTC.masked_fill(is_padding_BT[..., None], 0).sum(1))


def measure(path: Path, order: str, seed: int) -> tuple[float, float]:
    """Real tokens per CPU second, and positions per real token."""
    torch.manual_seed(seed)
    network = Network()
    data = H5DataModule(str(path), batch_size=BATCH_SIZE, seed=seed, fields=["x"], order=order)
    n_tokens = n_positions = 0
    batches = iter(data.loader("train", shuffle=True))
    began_s = time.process_time()
    for _ in range(N_STEPS):
        (x_BT,) = next(batches)
        network(x_BT.long()).square().mean().backward()
        n_tokens += int((x_BT > 0).sum())
        n_positions += x_BT.numel()
    return n_tokens / (time.process_time() - began_s), n_positions / n_tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = write_texts(Path(folder) / "texts.h5")
        rounds = [
            {order: measure(path, order, seed) for order in ORDERS}
            for seed in range(arguments.rounds)
        ]
    print("order | tokens a CPU second | positions per token\n-|-|-")
    for order in ORDERS:
        speed, padding = (statistics.median(one[order][i] for one in rounds) for i in range(2))
        print(f"{order} | {speed:,.0f} | {padding:.2f}")
    ratio = statistics.median(one["lengths"][0] / one["random"][0] for one in rounds)
    print(f"\nlengths : random, median of the pairs: {ratio:.2f}")


if __name__ == "__main__":
    main()
