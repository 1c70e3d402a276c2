"""The programs of gpu_step.py: the networks and their batches, the loop by hand, and what `lab train` gets of them."""

CASE = """
import json, os, time, torch
from torch import nn
from torch.nn import functional as F
from batch_loader import Loader

EPOCHS = {epochs}
NAME = os.environ["CASE"]
DEVICE = os.environ["DEVICE"]
ON_GPU = DEVICE == "cuda"
DEPTH = int(os.environ["DEPTH"])
BATCHES = {{"resnet18": 100, "transformer": 100, "smallest": 300}}[NAME] if ON_GPU else 3
BATCH = {{"resnet18": 512, "transformer": 64, "smallest": 64}}[NAME] if ON_GPU else 2
COMPILE = NAME != "smallest" and ON_GPU
AUTOCAST = torch.bfloat16 if os.environ["PRECISION"] == "bf16-mixed" else torch.float16


def wait_for_device():
    if ON_GPU:
        torch.cuda.synchronize()


def page_locked(tensor):
    return tensor.pin_memory() if ON_GPU else tensor


def compiled_counts():
    from torch._dynamo.utils import counters
    frames, graphs = counters["frames"], counters["stats"]["unique_graphs"]
    return {{"frames": frames["total"], "frames_ok": frames["ok"], "graphs": graphs}}


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
                *[part for _ in range(DEPTH) for part in (nn.Linear(width, width), nn.ReLU())],
                nn.Linear(width, 10),
            )

    def forward(self, x):
        return self.layers(x)


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
    '''Seconds of a step, within all epochs but the first.'''
    def __init__(self):
        self.seconds = 0.0
    def epoch_starts(self):
        wait_for_device()
        self.start_s = time.perf_counter()
    def epoch_ends(self, epoch):
        wait_for_device()
        if epoch > 0:
            self.seconds += time.perf_counter() - self.start_s
    def step_s(self):
        return self.seconds / (BATCHES * (EPOCHS - 1))
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
    clock.epoch_starts()
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
    clock.epoch_ends(epoch)
print(json.dumps(compiled_counts() if COMPILE else None))
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
        self.clock.epoch_starts()
    def on_train_epoch_end(self, trainer, task):
        self.clock.epoch_ends(trainer.current_epoch)
    def on_fit_end(self, trainer, task):
        with open("step_s.json", "w") as file:
            json.dump(self.clock.step_s(), file)
"""
