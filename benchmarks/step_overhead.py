"""CPU time per training step: `lab train` as shipped against hand-written loops, on a small network.

    python benchmarks/step_overhead.py [ROUNDS]

The case that templates of this field are compared on: MLP 784-64-128-64-10 with batch norm, in-memory batches of 128,
Adam, one thread; in `lab train` logging, checkpoints, metrics and health are on. The same network, wider, has steps of about
50 ms. One process per contender and round, interleaved; a ratio is the median over rounds of the same round's two times.
Needs the packages of constraints.txt.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from rendered import project_with, run

EPOCHS = 4  # the first warms up
SMALL, WIDE = "1 469", "14 40"  # width of the network, batches of an epoch

CASE = """
import json, os, time, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
EPOCHS = {epochs}
WIDTH, BATCHES = map(int, os.environ["CASE"].split())

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [784, 64 * WIDTH, 128 * WIDTH, 64 * WIDTH]
        layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(64 * WIDTH, 10))
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
        from myproj.lab.bench.chronometer import Chronometer
        trainer.profiler = Chronometer(trainer, 10**9, 1)
class Unwatched(L.Callback):
    def setup(self, trainer, task, stage):
        trainer.callbacks = [one for one in trainer.callbacks if type(one).__name__ != "Health"]
"""


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {
            "case": CASE.format(epochs=EPOCHS),
            "loop": LOOP,
            "bare": LIGHTNING,
            "modules": MODULES,
        }
        project = project_with(folder, programs, "mlp", "case.MLP")
        python, path = sys.executable, f"{project}/src:{folder}"
        lab = [
            python,
            "-m",
            "myproj.lab",
            "train",
            "trial=mlp",
            "data=memory",
            "optimizer=adam",
            "schedule=constant",
        ]
        lab += [
            "trainer=cpu",
            f"trainer.max_epochs={EPOCHS}",
            "trainer.threads=1",
            "trainer.test_after_fit=false",
        ]
        lab += ["callbacks.clock={_target_: modules.Clock}"]

        def alone(program: str, case: str) -> float:
            return json.loads(
                run([python, *program.split()], folder, path, CASE=case).splitlines()[-1]
            )

        def shipped(case: str, *more: str) -> float:
            run([*lab, *more], project, path, CASE=case)
            return json.loads((project / "step_s.json").read_text())

        contenders = {
            "loop, Adam": lambda: alone("loop.py default", SMALL),
            "loop, fused Adam": lambda: alone("loop.py fused", SMALL),
            "Lightning, everything off": lambda: alone("bare.py", SMALL),
            "lab train as shipped": lambda: shipped(SMALL),
            "the same without health": lambda: shipped(
                SMALL, "callbacks.unwatched={_target_: modules.Unwatched}"
            ),
            "the same, chronometer on": lambda: shipped(
                SMALL, "callbacks.timed={_target_: modules.Timed}"
            ),
            "wide loop, fused Adam": lambda: alone("loop.py fused", WIDE),
            "wide, lab train as shipped": lambda: shipped(WIDE),
        }
        step_s: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(rounds):
            for name, measure in contenders.items():
                step_s[name].append(measure())

    def ratio(name: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(step_s[name], step_s[other], strict=True))

    for name, values in step_s.items():
        print(f"{name:<28} {1e6 * statistics.median(values):7.0f} us")
    for name, other, limit in (
        ("Lightning, everything off", "loop, fused Adam", None),
        ("Lightning, everything off", "loop, Adam", None),
        ("lab train as shipped", "loop, fused Adam", 1.35),
        ("lab train as shipped", "loop, Adam", 1.15),
        ("lab train as shipped", "the same without health", 1.01),
        ("the same, chronometer on", "lab train as shipped", 1.05),
        ("wide, lab train as shipped", "wide loop, fused Adam", 1.01),
    ):
        print(
            f"{name:<28} {ratio(name, other):6.3f} of {other}"
            + (f"; limit {limit}" if limit else "")
        )


if __name__ == "__main__":
    main()
