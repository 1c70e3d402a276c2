"""`lab data pack --jobs 2` against one process on one core: photographs, and recordings that are resampled.

    python benchmarks/data_packing_jobs.py [--images 6000] [--recordings 2000] [--rounds 3]

Both ways in each round. The time of N processes is the CPU time of the first one, which joins the parts,
and the N-th part of the CPU time of the others, so that what else runs on the machine counts little. A
share of linear is (time of one) / (N * time of N), the median over the rounds; at least 0.8 is expected.
Wall times are printed too: on an idle machine they say the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

N_JOBS = 2
STORED = (375, 500)  # height, width
RATE_HZ = 44100
SECONDS = 5
LEAST_SHARE = 0.8
OPTIONS = {
    "images": ["--as", "images", "--size", "224", "224"],
    "audio": ["--as", "audio", "--rate", "16000"],
}


@dataclass(frozen=True)
class Times:
    """Of one packing, in seconds."""

    wall: float
    cpu: float


def write_photographs(folder: Path, n: int) -> None:
    """Parts of two photographs, each another one, as JPEG of quality 90."""
    from sklearn.datasets import load_sample_images  # here, so that no measured process imports it

    rng = np.random.default_rng(0)
    photographs = load_sample_images().images
    for i in range(n):
        pixels = photographs[i % 2]
        top, left = rng.integers(0, [pixels.shape[0] - STORED[0], pixels.shape[1] - STORED[1]])
        part = pixels[top : top + STORED[0], left : left + STORED[1]]
        (folder / f"class{i % 10}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(part).save(folder / f"class{i % 10}/{i}.jpg", quality=90)


def write_recordings(folder: Path, n: int) -> None:
    """Noise of SECONDS each, as FLAC."""
    import soundfile

    rng = np.random.default_rng(0)
    for i in range(n):
        wav = rng.integers(-9999, 9999, RATE_HZ * SECONDS).astype(np.int16)
        (folder / f"class{i % 10}").mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / f"class{i % 10}/{i}.flac", wav, RATE_HZ)


def pack_here(kind: str, raw: Path, target: Path, n_jobs: int) -> None:
    """What each measured process does; prints its times."""
    from labrig.hdf5.pack.command import pack
    from labrig.hdf5.pack.options import parse_options
    from labrig.hdf5.pack.samples import DamagedSamples

    words = ["a", str(raw), *OPTIONS[kind]]
    if n_jobs == 1:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    else:
        words += ["--jobs", str(n_jobs)]
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    pack(None, target, parse_options(words), DamagedSamples(), {})
    wall_s = time.perf_counter() - started_s
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = time.process_time() - started_cpu_s + (others.ru_utime + others.ru_stime) / n_jobs
    print(json.dumps({"wall": wall_s, "cpu": cpu_s}))


def measured(kind: str, raw: Path, target: Path, n_jobs: int) -> Times:
    target.unlink(missing_ok=True)
    words = [sys.executable, __file__, "--pack", kind, str(raw), str(target), str(n_jobs)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    return Times(**json.loads(done.stdout.splitlines()[-1]))


def compare(kind: str, raw: Path, n: int, n_rounds: int, directory: Path) -> float:
    """The share of linear, after a line of Markdown."""
    from labrig.data import fingerprint

    shares, of_one, of_jobs, hashes = [], [], [], set()
    for _ in range(n_rounds):
        for n_jobs, times in ((1, of_one), (N_JOBS, of_jobs)):
            target = directory / f"{kind}-{n_jobs}.h5"
            times.append(measured(kind, raw, target, n_jobs))
            hashes.add(fingerprint(target, verified=True)["sha256"])
        shares.append(of_one[-1].cpu / (N_JOBS * of_jobs[-1].cpu))
    share = statistics.median(shares)
    one, jobs = (statistics.median(each.cpu for each in times) for times in (of_one, of_jobs))
    one_wall, jobs_wall = (
        statistics.median(each.wall for each in times) for times in (of_one, of_jobs)
    )
    print(
        f"{kind} | {n} | {n / one:,.0f} | {n / jobs:,.0f} | {share:.2f} | "
        f"{one_wall:.1f} s, {jobs_wall:.1f} s | {'the same' if len(hashes) == 1 else 'DIFFERENT'}",
        flush=True,
    )
    return share


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--recordings", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pack", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pack:
        kind, raw, target, n_jobs = options.pack
        pack_here(kind, Path(raw), Path(target), int(n_jobs))
        return
    print(
        f"source | samples | samples/s, one core | --jobs {N_JOBS} | share of linear | wall | file"
    )
    print("-|-|-|-|-|-|-")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_photographs(directory / "images", options.images)
        write_recordings(directory / "audio", options.recordings)
        shares = [
            compare("images", directory / "images", options.images, options.rounds, directory),
            compare("audio", directory / "audio", options.recordings, options.rounds, directory),
        ]
    print(f"at least {LEAST_SHARE} is expected; found {min(shares):.2f}")


if __name__ == "__main__":
    main()
