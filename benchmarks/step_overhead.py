"""CPU time up to the first training step, and per step: `lab train` as shipped against hand-written loops.

    python benchmarks/step_overhead.py [ROUNDS]

The small network is the case that templates of this field are compared on: MLP 784-64-128-64-10 with batch
norm, in-memory batches of 128, Adam, one thread. In `lab train` logging, checkpoints, metrics and health
are on. The same network, wider, has steps of about 3 ms and 50 ms.
One process for each contender and round, interleaved. Its times are those of the epoch which other
programs of the machine disturbed least. There are two, and each ratio has its limit on one of them:
a step, from batch 5 on to the last one: steps and rows of the log. The limits of the two smallest cases;
a batch of a whole epoch, from its first batch to the first of the next: with what an epoch costs (its end, a
checkpoint, an export). All other limits, as they were set on this time.
A ratio is the median over the rounds of the two times of a round.
The time up to the first step counts from the start of the process, with imports and children.
Needs the packages of constraints.txt.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cpu_seconds import median_difference, run
from project_copy import LAB, project_with

EPOCHS = 6  # the first warms up
# Width of the network, batches of an epoch, samples of a batch.
SMALL = "1 469 128"
SMALLEST = "1 400 8"  # 0.75 ms by hand
SMALLER = "2 300 64"  # 1.4 ms
MIDDLE = "3 200 128"
WIDE = "14 40 128"

CASE = """
import json, os, resource, time, torch
from itertools import pairwise
from torch import nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook
from batch_loader import Loader
torch.set_num_threads(1)
EPOCHS = {epochs}
WIDTH, BATCHES, SAMPLES = map(int, os.environ["CASE"].split())
SKIPPED = 5  # batches of an epoch

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [784, 64 * WIDTH, 128 * WIDTH, 64 * WIDTH]
        layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(64 * WIDTH, 10))
    def forward(self, x):
        return self.layers(x)

def batches():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(64, SAMPLES, 784, generator=generator), torch.randint(10, (64, SAMPLES), generator=generator)
    return TimedLoader((x[i % 64], y[i % 64]) for i in range(BATCHES))

taken_s = []  # of each epoch: at its first batch, at batch SKIPPED, at its last one
class TimedLoader(Loader):
    def __iter__(self):
        times_s = []
        for i, batch in enumerate(self.batches):
            if i in (0, SKIPPED, BATCHES - 1):
                times_s.append(time.process_time())
            if i == BATCHES - 1:
                taken_s.append(tuple(times_s))
            yield batch
def step_s():
    return min(last - skipped for _, skipped, last in taken_s[1:]) / (BATCHES - 1 - SKIPPED)
def whole_s():
    begins_s = [first for first, _, _ in taken_s]
    return min(after - begin for begin, after in pairwise(begins_s[1:])) / BATCHES

first_step_s = []
def end_first_step(*args):
    hook.remove()  # so that it costs nothing in later steps
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    first_step_s.append(sum(part.ru_utime + part.ru_stime for part in used))
hook = register_optimizer_step_post_hook(end_first_step)

def figures():
    return json.dumps([first_step_s[0], step_s(), whole_s()])
"""
LOOP = """
from case import *
import sys
torch.manual_seed(0)
model, data = MLP(), batches()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **({"fused": True} if sys.argv[1] == "fused" else {}))
for epoch in range(EPOCHS):
    for x, y in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(figures())
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
task = Task()
L.Trainer(max_epochs=EPOCHS, accelerator="cpu", barebones=True).fit(task, batches())
print(figures())
"""
MODULES = """
from case import *
import lightning.pytorch as L
class Batches(L.LightningDataModule):
    def train_dataloader(self):
        return batches()
class Clock(L.Callback):
    def on_fit_end(self, trainer, task):
        with open("figures.json", "w") as file:
            file.write(figures())
class Timed(L.Callback):
    def setup(self, trainer, task, stage):
        from labrig.bench.chronometer import Chronometer
        trainer.profiler = Chronometer(trainer, 10**9, 1)
class Unwatched(L.Callback):
    names = ("Health",)
    def setup(self, trainer, task, stage):
        trainer.callbacks = [one for one in trainer.callbacks if type(one).__name__ not in self.names]
class Unlogged(Unwatched):
    names = ("OptimizerWatch", "Pace", "StepLines", "FirstLines")
"""


ALL_HOOKS = "speed.lean_loop=false"
NO_HEALTH = "callbacks.unwatched={_target_: modules.Unwatched}"
NO_LINES = "callbacks.unlogged={_target_: modules.Unlogged}"
CHRONOMETER = "callbacks.timed={_target_: modules.Timed}"
# Whose time up to the first step is printed.
FIRST_STEPS = ("loop, fused Adam", "Lightning, everything off", "lab train as shipped")
FIRST_STEP_LIMIT_S = 1.2  # of the last over the second
# One contender, another one, and what the ratio of their times may be at most; None: no limit.
STEPS = (
    ("0.75 ms, lab train as shipped", "0.75 ms loop, fused Adam", 1.25),
    ("1.4 ms, lab train as shipped", "1.4 ms loop, fused Adam", 1.10),
)
WHOLE_EPOCHS = (
    ("Lightning, everything off", "loop, fused Adam", None),
    ("Lightning, everything off", "loop, Adam", None),
    ("lab train as shipped", "loop, fused Adam", 1.35),
    ("lab train as shipped", "loop, Adam", 1.15),
    ("lab train as shipped", "the same without health", 1.01),
    ("lab train as shipped", "the same, unused hooks called", None),
    ("the same, chronometer on", "lab train as shipped", 1.05),
    ("0.75 ms, lab train as shipped", "0.75 ms loop, fused Adam", None),
    ("1.4 ms, lab train as shipped", "1.4 ms loop, fused Adam", None),
    ("3 ms, lab train as shipped", "3 ms, unused hooks called", 0.95),
    ("3 ms, lab train as shipped", "3 ms, no lines and no rate", 1.01),
    ("wide, lab train as shipped", "wide loop, fused Adam", 1.01),
)


@dataclass(frozen=True)
class Figures:
    """CPU seconds of one process."""

    first_step_s: float  # from its start to the end of its first step
    step_s: float  # a step, from batch 5 on
    whole_s: float  # a batch of a whole epoch


class Benchmark:
    """A project in `folder` with the case as its trial, and the hand-written loops next to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        case = CASE.format(epochs=EPOCHS)
        programs = {"case": case, "loop": LOOP, "bare": LIGHTNING, "modules": MODULES}
        self.project = project_with(folder, programs, "mlp", "case.MLP")

    def program(self, case: str, *words: str) -> Figures:
        """Times of a hand-written loop."""
        output = run([sys.executable, *words], self.folder, CASE=case)
        return Figures(*json.loads(output.splitlines()[-1]))

    def lab_train(self, case: str, *settings: str) -> Figures:
        """Times of `lab train`."""
        command = [*LAB, "train", "trial=mlp", "data=memory"]
        command += ["optimizer=adam", "schedule=constant", "trainer=cpu", "trainer.threads=1"]
        command += [f"trainer.max_epochs={EPOCHS}", "trainer.test_after_fit=false"]
        command += ["callbacks.clock={_target_: modules.Clock}", *settings]
        run(command, self.project, CASE=case, PYTHONPATH=str(self.folder))
        return Figures(*json.loads((self.project / "figures.json").read_text()))

    def contenders(self) -> dict[str, Callable[[], Figures]]:
        return {
            "loop, Adam": partial(self.program, SMALL, "loop.py", "default"),
            "loop, fused Adam": partial(self.program, SMALL, "loop.py", "fused"),
            "Lightning, everything off": partial(self.program, SMALL, "bare.py"),
            "lab train as shipped": partial(self.lab_train, SMALL),
            "the same, unused hooks called": partial(self.lab_train, SMALL, ALL_HOOKS),
            "the same without health": partial(self.lab_train, SMALL, NO_HEALTH),
            "the same, chronometer on": partial(self.lab_train, SMALL, CHRONOMETER),
            "0.75 ms loop, fused Adam": partial(self.program, SMALLEST, "loop.py", "fused"),
            "0.75 ms, lab train as shipped": partial(self.lab_train, SMALLEST),
            "1.4 ms loop, fused Adam": partial(self.program, SMALLER, "loop.py", "fused"),
            "1.4 ms, lab train as shipped": partial(self.lab_train, SMALLER),
            "3 ms, lab train as shipped": partial(self.lab_train, MIDDLE),
            "3 ms, unused hooks called": partial(self.lab_train, MIDDLE, ALL_HOOKS),
            "3 ms, no lines and no rate": partial(self.lab_train, MIDDLE, NO_LINES),
            "wide loop, fused Adam": partial(self.program, WIDE, "loop.py", "fused"),
            "wide, lab train as shipped": partial(self.lab_train, WIDE),
        }


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        contenders = Benchmark(Path(name)).contenders()
        figures: dict[str, list[Figures]] = {name: [] for name in contenders}
        for _ in range(n_rounds):
            for name, measure in contenders.items():
                figures[name].append(measure())
    print_first_steps(figures)
    step_s = {name: [one.step_s for one in values] for name, values in figures.items()}
    print_times("A step, from batch 5 on", step_s, STEPS)
    whole_s = {name: [one.whole_s for one in values] for name, values in figures.items()}
    print_times("A batch of a whole epoch", whole_s, WHOLE_EPOCHS)


def print_first_steps(figures: dict[str, list[Figures]]) -> None:
    seconds = {name: [one.first_step_s for one in figures[name]] for name in FIRST_STEPS}
    for name, values in seconds.items():
        print(f"{name:<29} {statistics.median(values):7.2f} s up to its first step")
    _, lightning, lab = FIRST_STEPS
    over_s = median_difference(seconds[lab], seconds[lightning])
    print(f"{lab:<29} {over_s:7.2f} s over {lightning}; limit {FIRST_STEP_LIMIT_S}")


def print_times(
    what: str, times_s: dict[str, list[float]], limits: tuple[tuple[str, str, float | None], ...]
) -> None:
    print(what)
    for name, values in times_s.items():
        print(f"{name:<29} {1e6 * statistics.median(values):7.0f} us")
    for name, other, limit in limits:
        rounds = zip(times_s[name], times_s[other], strict=True)
        ratio = statistics.median(a / b for a, b in rounds)
        limit_text = f"; limit {limit}" if limit else ""
        print(f"{name:<29} {ratio:6.3f} of {other}{limit_text}")


if __name__ == "__main__":
    main()
