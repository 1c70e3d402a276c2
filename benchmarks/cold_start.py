"""CPU seconds of commands from a cold start: those that answer at once, and `lab train` up to its first step.

    python benchmarks/cold_start.py [ROUNDS]

`lab train` is compared with a bare script that has the same Trainer.fit.
Rounds are interleaved; medians are printed with the limits of the design. Needs the packages of constraints.txt.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from cpu_seconds import cpu_s, median_difference, run
from project_copy import LAB, make_project

FIRST_STEP = """
import os, lightning.pytorch as L
class FirstStep(L.Callback):
    def on_train_batch_end(self, *args):
        os._exit(0)  # the parent reads the CPU time of this process and of its children
"""
BARE = """
import lightning.pytorch as L, torch
from functools import partial
from labrig.task import warmup_cosine
from myproj.data import Digits
from myproj.task import Classifier
from myproj.trials.baseline.model import CNN
from first_step import FirstStep
torch.manual_seed(0)
task = Classifier(CNN(), partial(torch.optim.AdamW, lr=1e-3, fused=True), warmup_cosine)
trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, callbacks=[FirstStep()], num_sanity_val_steps=0)
trainer.fit(task, datamodule=Digits(path="digits.h5", search=["data"], batch_size=64, seed=0, fields=["x", "y"]))
"""
AT_ONCE = ("lab --help", "lab runs list")


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = make_project(folder)
        (folder / "first_step.py").write_text(FIRST_STEP)
        (folder / "bare.py").write_text(BARE)
        run([*LAB, "data", "pack", "digits"], project)
        seconds = measure(folder, project, n_rounds)
    print_table(seconds)


def measure(folder: Path, project: Path, n_rounds: int) -> dict[str, list[float]]:
    """Seconds of each command in each round; the first round fills the caches and is left out."""
    stop = "callbacks.first={_target_: first_step.FirstStep}"
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "lab --help": [*LAB, "--help"],
        "lab runs list": [*LAB, "runs", "list"],
        "lab config": [*LAB, "config", "trial=baseline"],
        "bare": [sys.executable, folder / "bare.py"],
        "lab train": [*LAB, "train", "trial=baseline", "trainer=cpu", stop],
    }
    path = f"{project}/src:{folder}"
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for i in range(n_rounds + 1):
        for name, command in commands.items():
            value, _ = cpu_s(command, project, PYTHONPATH=path)
            if i > 0:
                seconds[name].append(value)
    return seconds


def print_table(seconds: dict[str, list[float]]) -> None:
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:<16} {median:6.2f} s CPU   ({min(values):.2f} to {max(values):.2f})")
    for name in AT_ONCE:
        print(f"{name:<20} {statistics.median(seconds[name]):5.2f} s   limit 0.15")
    train_over = median_difference(seconds["lab train"], seconds["bare"])
    print(f"lab train over bare  {train_over:5.2f} s   limit 1.2")


if __name__ == "__main__":
    main()
