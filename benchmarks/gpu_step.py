"""Time per training step on a GPU: `lab train` against loops by hand with the same settings, in turns.

    python benchmarks/gpu_step.py [ROUNDS] [--cpu]

Three cases: ResNet-18 on 32x32 images, a transformer of two layers, and the smallest useful step
(about 3 ms). bf16-mixed where the GPU has it, channels-last for images, torch.compile for the first two.
One process for each contender and round, interleaved. A ratio is the median over the rounds of the two
times of a round. Where torch sees no GPU, it says so and measures nothing; `--cpu` then runs the program
itself with tiny batches, and its figures mean nothing.
Needs the packages of constraints.txt with a CUDA build of torch.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from rendered import project_with, run

# name of the case, and what lab train may take of the loop's time at most
CASES = {"resnet18": 1.03, "transformer": 1.03, "smallest": 1.10}
EPOCHS = 4  # the first warms up and compiles

CASE = """
import json, os, time, torch
from torch import nn
from torch.nn import functional as F

EPOCHS = {epochs}
NAME = os.environ["CASE"]
DEVICE = os.environ["DEVICE"]
ON_GPU = DEVICE == "cuda"
BATCHES = {{"resnet18": 60, "transformer": 60, "smallest": 300}}[NAME] if ON_GPU else 3
BATCH = {{"resnet18": 512, "transformer": 64, "smallest": 64}}[NAME] if ON_GPU else 2
COMPILE = NAME != "smallest" and ON_GPU
HALF = not ON_GPU or torch.cuda.get_device_capability() >= (8, 0)
AUTOCAST = torch.bfloat16 if HALF else torch.float16


def wait_for_device():
    if ON_GPU:
        torch.cuda.synchronize()


def page_locked(tensor):
    return tensor.pin_memory() if ON_GPU else tensor


class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(n_out)
        self.second = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(n_out)
        self.short = nn.Identity()
        if stride > 1 or n_in != n_out:
            self.short = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x_BCHW):
        y_BCHW = F.relu(self.first_norm(self.first(x_BCHW)))
        return F.relu(self.second_norm(self.second(y_BCHW)) + self.short(x_BCHW))


def resnet18():
    widths = (64, 64, 128, 256, 512)
    blocks = []
    for n_in, n_out in zip(widths, widths[1:]):
        blocks += [Block(n_in, n_out, 1 if n_out == 64 else 2), Block(n_out, n_out, 1)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(512, 10)

    def forward(self, x_BTC):
        return self.head(self.layers(x_BTC).mean(1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        if NAME == "resnet18":
            self.layers = resnet18()
        elif NAME == "transformer":
            self.layers = Transformer()
        else:
            width = 256
            self.layers = nn.Sequential(
                nn.Flatten(),
                nn.Linear(784, width),
                *[part for _ in range(40) for part in (nn.Linear(width, width), nn.ReLU())],
                nn.Linear(width, 10),
            )

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
    shape = {{"resnet18": (3, 32, 32), "transformer": (128, 512), "smallest": (784,)}}[NAME]
    pairs = [
        (
            page_locked(torch.randn(BATCH, *shape, generator=generator)),
            page_locked(torch.randint(10, (BATCH,), generator=generator)),
        )
        for _ in range(8)
    ]
    return Loader(pairs[i % 8] for i in range(BATCHES))


class Clock:
    '''Seconds of a step, of all epochs but the first.'''
    def epoch_starts(self, epoch):
        if epoch == 1:
            wait_for_device()
            self.start_s = time.perf_counter()
    def step_s(self):
        wait_for_device()
        return (time.perf_counter() - self.start_s) / (BATCHES * (EPOCHS - 1))
"""
LOOP = """
from case import *
torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
model, data, clock = Net().to(DEVICE), batches(), Clock()
if NAME == "resnet18":
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
scaler = torch.amp.GradScaler(DEVICE, enabled=AUTOCAST is torch.float16)
forward = torch.compile(model) if COMPILE else model
for epoch in range(EPOCHS):
    clock.epoch_starts(epoch)
    for x, y in data:
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
        if NAME == "resnet18":
            x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with torch.autocast(DEVICE, AUTOCAST):
            loss = F.cross_entropy(forward(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
print(json.dumps(clock.step_s()))
"""
MODULES = """
from case import *
import lightning.pytorch as L
class Batches(L.LightningDataModule):
    def train_dataloader(self):
        return batches()
class Timer(L.Callback):
    def setup(self, trainer, task, stage):
        self.clock = Clock()
    def on_train_epoch_start(self, trainer, task):
        self.clock.epoch_starts(trainer.current_epoch)
    def on_fit_end(self, trainer, task):
        with open("step_s.json", "w") as file:
            json.dump(self.clock.step_s(), file)
"""


class Benchmark:
    """A project in `folder` with the case as its trial, and the loop by hand next to it."""

    def __init__(self, folder: Path, device: str) -> None:
        programs = {"case": CASE.format(epochs=EPOCHS), "loop": LOOP, "modules": MODULES}
        self.folder = folder
        self.device = device
        self.project = project_with(folder, programs, "net", "case.Net")
        self.path = f"{self.project}/src:{folder}"

    def loop_s(self, case: str) -> float:
        """Seconds of a step of the loop by hand."""
        command = [sys.executable, "loop.py"]
        output = run(command, self.folder, self.path, CASE=case, DEVICE=self.device)
        return json.loads(output.splitlines()[-1])

    def lab_s(self, case: str) -> float:
        """Seconds of a step of `lab train`, with its record, health and checkpoints."""
        channels_last = str(case == "resnet18").lower()
        compiles = case != "smallest" and self.device == "cuda"
        command = [sys.executable, "-m", "myproj.lab", "train", "trial=net", "data=memory"]
        command += ["optimizer=adam", "schedule=constant", "trainer.test_after_fit=false"]
        command += [f"trainer={'gpu' if self.device == 'cuda' else 'cpu'}"]
        command += [f"trainer.max_epochs={EPOCHS}", "callbacks.timer={_target_: modules.Timer}"]
        command += [f"speed.channels_last={channels_last}"]
        command += [f"speed.compile={'default' if compiles else 'null'}"]
        run(command, self.project, self.path, CASE=case, DEVICE=self.device)
        return json.loads((self.project / "step_s.json").read_text())


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--cpu"]
    n_rounds = int(words[0]) if words else 5
    device = "cpu" if "--cpu" in sys.argv else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch sees none, nothing was measured")
        return
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    with tempfile.TemporaryDirectory() as folder:
        benchmark = Benchmark(Path(folder), device)
        for case, limit in CASES.items():
            rounds = [(benchmark.lab_s(case), benchmark.loop_s(case)) for _ in range(n_rounds)]
            lab_s, loop_s = (statistics.median(times) for times in zip(*rounds, strict=True))
            ratio = statistics.median(lab / loop for lab, loop in rounds)
            print(
                f"{case:<12} lab train {1e3 * lab_s:7.3f} ms, loop {1e3 * loop_s:7.3f} ms, "
                f"ratio {ratio:.3f}; limit {limit}"
            )


if __name__ == "__main__":
    main()
