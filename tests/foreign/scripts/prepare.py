"""The letters that loop/train.py reads: data/letters/{train,val}.bin and meta.pkl below a directory."""

import pickle
from pathlib import Path

import numpy as np

N_LETTERS = 30


def write_letters(folder: Path) -> None:
    rng = np.random.default_rng(0)
    place = folder / "data/letters"
    place.mkdir(parents=True)
    steps = rng.integers(1, 4, 3000)
    letters = (np.cumsum(steps) % N_LETTERS).astype(np.uint16)
    letters[:2500].tofile(place / "train.bin")
    letters[2500:].tofile(place / "val.bin")
    (place / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": N_LETTERS}))
