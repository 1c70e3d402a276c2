"""Time per training step of a ResNet-18 on one GPU: `lab train` with its settings against a loop written by hand.

    python benchmarks/gpu_step.py [ROUNDS] [--cpu]

Both train with bf16-mixed precision, channels_last, torch.compile and a fused AdamW on images of
224 x 224 that are on the device already. One process per contender and round, interleaved; the
ratio is the median over rounds. `--cpu` runs the same with small images,
to try the program itself. Without a GPU it says so and measures nothing.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from rendered import project_with, run

LIMIT = 1.03
CASE = """
import json, os, time, torch
from torch import nn
from torch.nn import functional as F
ON_GPU = os.environ["DEVICE"] == "gpu"
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
EPOCHS, BATCHES, SIZE, BATCH = 3, *((100, 224, 128) if ON_GPU else (4, 32, 8))  # the first epoch compiles

class Block(nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(inplace=True),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False), nn.BatchNorm2d(n_out))
        same = stride == 1 and n_in == n_out
        self.skip = nn.Identity() if same else nn.Sequential(
            nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
    def forward(self, x_BCHW):
        return F.relu(self.body(x_BCHW) + self.skip(x_BCHW))

class ResNet18(nn.Sequential):
    def __init__(self):
        blocks = [Block(max(64, n // 2) if first else n, n, 2 if first and n > 64 else 1)
                  for n in (64, 128, 256, 512) for first in (True, False)]
        super().__init__(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))

def wait():
    if ON_GPU:
        torch.cuda.synchronize()

class Loader:  # Lightning would take a plain list for a list of loaders
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        image_BCHW = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator).to(DEVICE)
        self.batch = image_BCHW, torch.randint(1000, (BATCH,), generator=generator).to(DEVICE)
    def __iter__(self):
        return iter([self.batch] * BATCHES)
    def __len__(self):
        return BATCHES
"""
LOOP = """
from case import *
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
model, data = ResNet18().to(DEVICE, memory_format=torch.channels_last), Loader()
network = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for epoch in range(EPOCHS):
    if epoch == EPOCHS - 1:
        wait()
        start = time.perf_counter()
    for image_BCHW, label_B in data:
        with torch.autocast(DEVICE.type, torch.bfloat16):
            loss = F.cross_entropy(network(image_BCHW.contiguous(memory_format=torch.channels_last)), label_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
wait()
print(json.dumps((time.perf_counter() - start) / BATCHES))
"""
MODULES = """
from case import *
import lightning.pytorch as L
class Batches(L.LightningDataModule):
    def train_dataloader(self):
        return Loader()
class Clock(L.Callback):
    def on_train_epoch_start(self, trainer, task):
        if trainer.current_epoch == EPOCHS - 1:
            wait()
            self.start = time.perf_counter()
    def on_train_epoch_end(self, trainer, task):
        if trainer.current_epoch == EPOCHS - 1:
            wait()
            with open("step_s.json", "w") as file:
                json.dump((time.perf_counter() - self.start) / BATCHES, file)
"""
SETTINGS = (
    "trial=resnet", "data=memory", "optimizer=adamw", "schedule=constant", "trainer.precision=bf16-mixed",
    "speed.channels_last=true", "speed.compile=default", "trainer.max_epochs=3",
    "trainer.test_after_fit=false",
)  # fmt: skip


def main() -> None:
    import torch

    words = [word for word in sys.argv[1:] if word != "--cpu"]
    rounds, device = int(words[0]) if words else 5, "cpu" if "--cpu" in sys.argv else "gpu"
    if device == "gpu" and not torch.cuda.is_available():
        print(
            "torch sees no CUDA device here; nothing was measured (--cpu tries the program itself)",
            file=sys.stderr,
        )
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = project_with(
            folder, {"case": CASE, "loop": LOOP, "modules": MODULES}, "resnet", "case.ResNet18"
        )
        python, path = sys.executable, f"{project}/src:{folder}"
        lab = [python, "-m", "myproj.lab", "train", *SETTINGS, f"trainer={device}"]
        lab += ["callbacks.clock={_target_: modules.Clock}"]
        step_s: dict[str, list[float]] = {"loop by hand": [], "lab train": []}
        for _ in range(rounds):
            said = run([python, "loop.py"], folder, path, DEVICE=device)
            step_s["loop by hand"].append(json.loads(said.splitlines()[-1]))
            run(lab, project, path, DEVICE=device)
            step_s["lab train"].append(json.loads((project / "step_s.json").read_text()))
    for name, values in step_s.items():
        print(f"{name:<14} {1e3 * statistics.median(values):8.3f} ms a step")
    ratios = [
        ours / theirs
        for ours, theirs in zip(step_s["lab train"], step_s["loop by hand"], strict=True)
    ]
    print(f"lab train takes {statistics.median(ratios):.3f} of the loop; limit on a GPU {LIMIT}")


if __name__ == "__main__":
    main()
