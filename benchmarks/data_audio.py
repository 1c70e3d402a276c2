"""Random crops of 1 s out of recordings of 1 to 10 s, in the layouts people use; for data_loading.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import soundfile
import torch
from data_peers import Items, epochs
from labrig.data import H5Dataset, as_is, write_data_file
from torch.utils.data import DataLoader

N, RATE_HZ, BATCH_SIZE = 2000, 16_000, 64
LEAST = {"WAV files": 5, "variable-length HDF5": 8, "group per sample (HDF5)": 8}


def contenders(directory: Path, ours: str) -> dict[str, Iterator[int]]:
    """Endless streams of batch sizes by name."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(RATE_HZ, 10 * RATE_HZ, N)
    wavs = [rng.integers(-9999, 9999, length, dtype=np.int16) for length in lengths]
    labels = rng.integers(0, 10, N)
    file = write_data_file(directory / "ours.h5", {"wav": wavs, "y": labels}, {"train": range(N)})
    dataset = H5Dataset(file, "train", ("wav", "y"), shapes={"wav": RATE_HZ}, crop="random")
    with h5py.File(directory / "layouts.h5", "w") as layouts:
        flexible = layouts.create_dataset("flexible", N, h5py.vlen_dtype(np.int16))
        for i, wav in enumerate(wavs):
            flexible[i] = wav
            layouts[f"groups/{i}/wav"] = wav
            soundfile.write(directory / f"{i}.wav", wav, RATE_HZ)
    layouts = h5py.File(directory / "layouts.h5")
    flexible, groups = layouts["flexible"], layouts["groups"]

    def start_of(i: int) -> int:
        return int(rng.integers(0, lengths[i] - RATE_HZ + 1))

    def from_file(i: int):
        with soundfile.SoundFile(directory / f"{i}.wav") as wav:
            wav.seek(start_of(i))
            return torch.from_numpy(wav.read(RATE_HZ, dtype="int16")), int(labels[i])

    def from_flexible(i: int):
        start = start_of(i)
        return torch.from_numpy(flexible[i][start : start + RATE_HZ]), int(labels[i])

    def from_group(i: int):
        start = start_of(i)
        return torch.from_numpy(groups[f"{i}/wav"][start : start + RATE_HZ]), int(labels[i])

    ways = {
        "WAV files": from_file,
        "variable-length HDF5": from_flexible,
        "group per sample (HDF5)": from_group,
    }
    common = {"batch_size": BATCH_SIZE, "shuffle": True}
    streams = {ours: epochs(DataLoader(dataset, collate_fn=as_is, **common))}
    for name, get in ways.items():
        streams[name] = epochs(DataLoader(Items(N, get), **common))
    return streams
