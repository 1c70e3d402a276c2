"""CPU seconds from the command to the first training step: `lab train` against a bare script with the same Trainer.fit.

    python benchmarks/cold_start.py [ROUNDS]

Also: `copier copy --defaults` beyond importing copier, and the commands that only read records.
Rounds are interleaved; medians are printed with the limits of the design. Needs the packages of constraints.txt.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rendered import copy_command, run

LAB = [sys.executable, "-m", "myproj.lab"]
FIRST_STEP = """
import os, resource, lightning.pytorch as L
class FirstStep(L.Callback):
    def on_train_batch_end(self, *args):
        os._exit(0)  # the parent reads the CPU time of this process and of its children
"""
BARE = """
import lightning.pytorch as L, torch
from functools import partial
from myproj.data import Digits
from myproj.task import Classifier
from myproj.trials.baseline.model import CNN
from myproj.lab.training.schedule import warmup_cosine
from first_step import FirstStep
torch.manual_seed(0)
task = Classifier(CNN(), partial(torch.optim.AdamW, lr=1e-3, fused=True), warmup_cosine)
trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, callbacks=[FirstStep()], num_sanity_val_steps=0)
trainer.fit(task, datamodule=Digits(path="digits.h5", search=["data"], batch_size=64, seed=0, fields=["x", "y"]))
"""


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy, project = make_project(folder)
        seconds = measure(cases(folder, project, copy), n_rounds)
    print_table(seconds)


def make_project(folder: Path) -> tuple[list[str], Path]:
    """A rendered project with a commit and packed data; also the command that rendered it."""
    copy = copy_command(folder)
    project = folder / "myproj"
    subprocess.run([*copy, str(project)], check=True)
    (folder / "first_step.py").write_text(FIRST_STEP)
    (folder / "bare.py").write_text(BARE)
    identity = ["-c", "user.name=B", "-c", "user.email=b@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "Start"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    run([*LAB, "data", "pack", "digits"], project, f"{project}/src:{folder}")
    return copy, project


def cases(folder: Path, project: Path, copy: list[str]) -> dict[str, Callable[[], float]]:
    """What is measured: each returns the CPU seconds of one round."""
    path = f"{project}/src:{folder}"
    stop = "callbacks.first={_target_: first_step.FirstStep}"
    train = [*LAB, "train", "trial=baseline", "trainer=cpu", stop]
    bare = [sys.executable, str(folder / "bare.py")]
    import_copier = [sys.executable, "-c", "import copier"]
    return {
        "bare": lambda: cpu_s(bare, project, path),
        "lab train": lambda: cpu_s(train, project, path),
        "import copier": lambda: cpu_s(import_copier, folder, ""),
        "copier copy": lambda: cpu_s([*copy, tempfile.mkdtemp(dir=folder)], folder, ""),
        "lab --help": lambda: cpu_s([*LAB, "--help"], project, path),
        "lab runs list": lambda: cpu_s([*LAB, "runs", "list"], project, path),
        "lab config": lambda: cpu_s([*LAB, "config", "trial=baseline"], project, path),
    }


def cpu_s(command: list[str], folder: Path, path: str) -> float:
    """User and system seconds of a command and everything it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command, folder, path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(cases: dict[str, Callable[[], float]], n_rounds: int) -> dict[str, list[float]]:
    """Seconds of each case in each round; the first round fills the caches and is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for i in range(n_rounds + 1):
        for name, case in cases.items():
            value = case()
            if i > 0:
                seconds[name].append(value)
    return seconds


def print_table(seconds: dict[str, list[float]]) -> None:
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:<16} {median:6.2f} s CPU   ({min(values):.2f} to {max(values):.2f})")
    train_over = median_difference(seconds["lab train"], seconds["bare"])
    copy_over = median_difference(seconds["copier copy"], seconds["import copier"])
    print(f"lab train over bare         {train_over:5.2f} s   limit 1.2")
    print(f"copier copy over its import {copy_over:5.2f} s   limit 1.0")
    for name in ("lab --help", "lab runs list"):
        print(f"{name:<27} {statistics.median(seconds[name]):5.2f} s   limit 0.15")


def median_difference(a: list[float], b: list[float]) -> float:
    """Median over the rounds of a - b."""
    return statistics.median(x - y for x, y in zip(a, b, strict=True))


if __name__ == "__main__":
    main()
