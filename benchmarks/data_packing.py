"""How fast an array becomes a data file; a part of data_loading.py."""

import statistics
import time
from pathlib import Path

import numpy as np
from labrig.hdf5.pack.collect import Findings
from labrig.hdf5.pack.split import Splitter
from labrig.hdf5.pack.writer import write_fields


def packing_MB_per_cpu_s(directory: Path) -> float:
    """`lab data pack --as arrays`: shuffled, hashed, compared and synced, from .npy."""
    pixels = np.random.default_rng(0).integers(0, 255, (20000, 12288), np.uint8)
    np.save(directory / "x.npy", pixels)
    rates = []
    # several: memory that a virtual machine touches for the first time costs its guest CPU time
    for _ in range(9):
        x = np.load(directory / "x.npy", mmap_mode="r")
        started_s = time.process_time()
        packed = Splitter({"train": 0.9, "test": 0.1}).arrange(len(x))
        write_fields(
            directory / "packed.h5",
            {"x": x},
            packed.splits,
            order=packed.order,
            provenance={},
            findings=Findings({"x": x}, packed.order),
        )
        rates.append(x.nbytes / 1e6 / (time.process_time() - started_s))
    return statistics.median(rates)
