"""CPU time per training step: `lab train` as shipped against hand-written loops, on a small network.

    python benchmarks/step_overhead.py [ROUNDS]

The case that templates of this field are compared on: MLP 784-64-128-64-10 with batch norm, in-memory batches of 128,
Adam, one thread; in `lab train` logging, checkpoints and metrics are on. One process per contender and round, interleaved;
a ratio is the median over rounds of the same round's two times. Needs the packages of constraints.txt.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EPOCHS, BATCHES = 4, 469  # the first epoch warms up

CASE = """
import time, json, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
EPOCHS, BATCHES = {epochs}, {batches}

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [784, 64, 128, 64]
        layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(64, 10))
    def forward(self, x):
        return self.layers(x)

class Loader:  # Lightning would take a plain list for a list of loaders
    def __init__(self, batches):
        self.batches = list(batches)
    def __iter__(self):
        return iter(self.batches)
    def __len__(self):
        return len(self.batches)

def batches():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, 128, 784, generator=generator), torch.randint(10, (64, 128), generator=generator)
    return Loader((x[i % 64], y[i % 64]) for i in range(BATCHES))
"""
LOOP = """
from case import *
import sys
torch.manual_seed(0)
model, data = MLP(), batches()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **({"fused": True} if sys.argv[1] == "fused" else {}))
for epoch in range(EPOCHS):
    if epoch == 1:
        start = time.process_time()
    for x, y in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(json.dumps((time.process_time() - start) / (BATCHES * (EPOCHS - 1))))
"""
LIGHTNING = """
from case import *
import lightning.pytorch as L, logging, warnings
warnings.simplefilter("ignore")
class Task(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = MLP()
    def training_step(self, batch, i):
        return F.cross_entropy(self.model(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            self.start = time.process_time()
task = Task()
L.Trainer(max_epochs=EPOCHS, accelerator="cpu", barebones=True).fit(task, batches())
print(json.dumps((time.process_time() - task.start) / (BATCHES * (EPOCHS - 1))))
"""
MODULES = """
from case import *
import lightning.pytorch as L
class Batches(L.LightningDataModule):
    def train_dataloader(self):
        return batches()
class Clock(L.Callback):
    def on_train_epoch_start(self, trainer, task):
        if trainer.current_epoch == 1:
            self.start = time.process_time()
    def on_fit_end(self, trainer, task):
        with open("step_s.json", "w") as file:
            json.dump((time.process_time() - self.start) / (BATCHES * (EPOCHS - 1)), file)
class Timed(L.Callback):
    def setup(self, trainer, task, stage):
        from myproj.lab.speed.chronometer import Chronometer
        trainer.profiler = Chronometer(trainer, 10**9, 1)
"""
TRIAL = "model:\n  _target_: case.MLP\n"
DATA = "_target_: modules.Batches\n"


def run(command: list[str], folder: Path, path: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, project = sys.executable, folder / "myproj"
        subprocess.run(
            ["git", "clone", "--quiet", str(ROOT), str(folder / "template")], check=True
        )  # what is committed
        copy = [
            "copier",
            "copy",
            "--defaults",
            "--quiet",
            "--vcs-ref",
            "HEAD",
            str(folder / "template"),
            str(project),
        ]
        subprocess.run([python, "-m", *copy], check=True)
        for file, text in {
            "case": CASE.format(epochs=EPOCHS, batches=BATCHES),
            "loop": LOOP,
            "bare": LIGHTNING,
            "modules": MODULES,
        }.items():
            (folder / f"{file}.py").write_text(text)
        trial = project / "src/myproj/trials/mlp"
        trial.mkdir()
        (trial / "config.yaml").write_text(TRIAL)
        (project / "src/myproj/conf/data/memory.yaml").write_text(DATA)
        path = f"{project}/src:{folder}"
        lab = [
            python,
            "-m",
            "myproj.lab",
            "train",
            "trial=mlp",
            "data=memory",
            "optimizer=adam",
            "schedule=constant",
            "trainer=cpu",
        ]
        lab += [
            f"trainer.max_epochs={EPOCHS}",
            "trainer.threads=1",
            "trainer.test_after_fit=false",
            "callbacks.clock={_target_: modules.Clock}",
        ]

        def shipped(*more: str) -> float:
            run([*lab, *more], project, path)
            return json.loads((project / "step_s.json").read_text())

        cases = {
            "loop, Adam": lambda: json.loads(run([python, "loop.py", "default"], folder, path)),
            "loop, fused Adam": lambda: json.loads(run([python, "loop.py", "fused"], folder, path)),
            "Lightning, everything off": lambda: json.loads(run([python, "bare.py"], folder, path).splitlines()[-1]),
            "lab train as shipped": shipped,
            "the same, chronometer on": lambda: shipped("callbacks.timed={_target_: modules.Timed}"),
        }
        step_s: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, measure in cases.items():
                step_s[name].append(measure())
    for name, values in step_s.items():
        ratios = [
            statistics.median(a / b for a, b in zip(values, step_s[other], strict=True))
            for other in ("loop, fused Adam", "loop, Adam")
        ]
        print(
            f"{name:<28} {1e6 * statistics.median(values):7.0f} us   "
            f"{ratios[0]:5.2f} of fused loop   {ratios[1]:5.2f} of plain loop"
        )
    shipped_s, timed_s = (step_s[name] for name in ("lab train as shipped", "the same, chronometer on"))
    timed = statistics.median(b / a for a, b in zip(shipped_s, timed_s, strict=True))
    print(f"chronometer: {timed:.2f} of lab train as shipped; limit 1.05")
    print("limits for lab train: 1.35 of the loop with the same optimizer, 1.15 of the plain loop")


if __name__ == "__main__":
    main()
