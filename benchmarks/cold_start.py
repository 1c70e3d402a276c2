"""CPU seconds from the command to the first training step: `lab train` against a bare script with the same Trainer.fit.

    python benchmarks/cold_start.py [ROUNDS]

Also: `copier copy --defaults` beyond importing copier, and the commands that only read records.
Rounds are interleaved; medians are printed with the limits of the design. Needs the packages of constraints.txt.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rendered import copy_command, run

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


def cpu_s(command: list[str], folder: Path, path: str) -> float:
    """User + system seconds of a command and everything it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(command, folder, path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, project = sys.executable, folder / "myproj"
        subprocess.run([*(copy := copy_command(folder)), str(project)], check=True)
        (folder / "first_step.py").write_text(FIRST_STEP)
        (folder / "bare.py").write_text(BARE)
        path = f"{project}/src:{folder}"
        lab = [python, "-m", "myproj.lab"]
        for command in (["git", "init", "-q"], ["git", "add", "-A"]):
            subprocess.run(command, cwd=project, check=True)
        subprocess.run(
            [
                "git",
                "-c",
                "user.name=B",
                "-c",
                "user.email=b@example.org",
                "commit",
                "-qm",
                "Start",
            ],
            cwd=project,
            check=True,
        )
        subprocess.run(
            [*lab, "data", "pack", "digits"],
            cwd=project,
            env=os.environ | {"PYTHONPATH": path},
            check=True,
        )
        train = [
            *lab,
            "train",
            "trial=baseline",
            "trainer=cpu",
            "callbacks.first={_target_: first_step.FirstStep}",
        ]
        cases = {
            "bare": lambda: cpu_s([python, str(folder / "bare.py")], project, path),
            "lab train": lambda: cpu_s(train, project, path),
            "import copier": lambda: cpu_s([python, "-c", "import copier"], folder, ""),
            "copier copy": lambda: cpu_s([*copy, tempfile.mkdtemp(dir=folder)], folder, ""),
            "lab --help": lambda: cpu_s([*lab, "--help"], project, path),
            "lab runs list": lambda: cpu_s([*lab, "runs", "list"], project, path),
            "lab config": lambda: cpu_s([*lab, "config", "trial=baseline"], project, path),
        }
        seconds = {name: [] for name in cases}
        for round_ in range(rounds + 1):
            for name, measure in cases.items():
                value = measure()
                if round_:  # the first round fills the caches
                    seconds[name].append(value)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in median.items():
        print(
            f"{name:<16} {value:6.2f} s CPU   ({min(seconds[name]):.2f} to {max(seconds[name]):.2f})"
        )
    train_over = statistics.median(
        a - b for a, b in zip(seconds["lab train"], seconds["bare"], strict=True)
    )
    copy_over = statistics.median(
        a - b for a, b in zip(seconds["copier copy"], seconds["import copier"], strict=True)
    )
    print(f"lab train over bare         {train_over:5.2f} s   limit 1.2")
    print(f"copier copy over its import {copy_over:5.2f} s   limit 1.0")
    print(f"lab --help                  {median['lab --help']:5.2f} s   limit 0.15")
    print(f"lab runs list               {median['lab runs list']:5.2f} s   limit 0.15")


if __name__ == "__main__":
    main()
