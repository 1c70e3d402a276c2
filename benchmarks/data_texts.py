"""`lab data pack --as text` against `datasets`, with the same tokenizer: CPU time, of tokens on disk.

    python benchmarks/data_texts.py [--megabytes 100] [--rounds 3] [--peer PYTHON]

PYTHON is one that has `datasets` and `tokenizers` (benchmarks/requirements.txt), this one unless said.
Made-up texts (words as frequent as in Zipf's law) in one Parquet file, a byte-pair tokenizer trained on some
of them, one thread. The two take turns, each in a process of its own; its start and its imports do not count.
At most 1.2 times the time of `datasets` is expected.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from cpu_seconds import say
from pyarrow.parquet import write_table

MOST = 1.2
WORDS_OF_TEXT = 200
N_WORDS = 30_000
OURS = """
import sys, time
from pathlib import Path
from labrig.hdf5.pack.command import pack
from labrig.hdf5.pack.options import parse_options
from labrig.hdf5.pack.samples import DamagedSamples
import pyarrow.parquet, tokenizers
raw, tokenizer, target = sys.argv[1:]
words = ["a", raw, "--as", "text", "--columns", "text", "--label", "label", "--tokenizer", tokenizer]
began_s = time.process_time()
pack(None, Path(target) / "a.h5", parse_options(words), DamagedSamples(), {})
print(time.process_time() - began_s)
"""
PEERS = """
import sys, time
import datasets, tokenizers
raw, tokenizer, target = sys.argv[1:]
datasets.disable_progress_bars()
began_s = time.process_time()
tokenizer = tokenizers.Tokenizer.from_file(tokenizer)
def tokens_of(batch):
    return {"x": [each.ids for each in tokenizer.encode_batch(batch["text"])]}
texts = datasets.load_dataset("parquet", data_files=raw, split="train", cache_dir=target)
texts.map(tokens_of, batched=True, remove_columns=["text"]).save_to_disk(target + "/saved")
print(time.process_time() - began_s)
"""


def write_texts(directory: Path, n_bytes: int) -> tuple[Path, Path]:
    """A Parquet file with the columns text and label, and the file of a tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    lengths = rng.integers(2, 10, N_WORDS)
    words = np.array(["".join(rng.choice(letters, length)) for length in lengths])
    share = 1 / np.arange(1, N_WORDS + 1)
    texts: list[str] = []
    n_left = n_bytes
    while n_left > 0:
        texts.append(" ".join(rng.choice(words, WORDS_OF_TEXT, p=share / share.sum())))
        n_left -= len(texts[-1])
    table = pa.table({"text": texts, "label": rng.integers(0, 2, len(texts))})
    raw, file = directory / "texts.parquet", directory / "tokenizer.json"
    write_table(table, raw)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts[:2000], trainers.BpeTrainer(vocab_size=8000))
    tokenizer.save(str(file))
    return raw, file


def cpu_s(python: str, program: str, *arguments: Path) -> float:
    """CPU seconds of the work, as the program prints it last."""
    with tempfile.TemporaryDirectory(dir=arguments[0].parent) as target:
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HOME": target, "HF_HUB_OFFLINE": "1"}
        command = [python, "-c", program, *map(str, arguments), target]
        done = subprocess.run(
            command, env=os.environ | quiet, stdout=subprocess.PIPE, check=True, text=True
        )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", default=sys.executable)
    options = parser.parse_args()
    if subprocess.run([options.peer, "-c", "import datasets"], capture_output=True).returncode:
        print(f"{options.peer} has no datasets: benchmarks/requirements.txt, or --peer PYTHON")
        return
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as name:
        raw, tokenizer = write_texts(Path(name), options.megabytes * 10**6)
        for _ in range(options.rounds):
            ours.append(cpu_s(sys.executable, OURS, raw, tokenizer))
            peers.append(cpu_s(options.peer, PEERS, raw, tokenizer))
    say(f"lab data pack --as text, {options.megabytes} MB", ours)
    say("datasets: load_dataset, map, save_to_disk", peers)
    ratio = statistics.median(x / y for x, y in zip(ours, peers, strict=True))
    print(f"labrig : datasets, median of the pairs: {ratio:.2f}; at most {MOST} is expected")


if __name__ == "__main__":
    main()
