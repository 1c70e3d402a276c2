"""Attempts of a run in the process of the tests: stopped by a signal at a named place, and continued."""

import os
import random
import signal
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from unittest import mock

import lightning.pytorch as L
import numpy as np
import torch
from in_process import NO_ARGUMENTS, ONE_EPOCH
from labrig.config.compose import compose
from labrig.machine.stop import STOP
from labrig.project import Project
from labrig.record.files.atomic import read_advisory
from labrig.record.files.metrics_file import read_metrics
from labrig.record.write.attempt import Attempt
from labrig.record.write.recording import Recording
from labrig.training.exact.preemption import PreemptionCallback, Stopped
from myproj.task import Classifier
from myproj.train import train
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler


class Net(nn.Sequential):
    """A small network with dropout, which draws from the generator of the process."""

    def __init__(self):
        super().__init__(
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)
        )


class Task(Classifier):
    """With what some callbacks of Lightning look for: `backbone` and `lr`."""

    def __init__(self, model, optimizer, schedule):
        super().__init__(model, optimizer, schedule)
        self.backbone = model[2]
        self.lr = 1e-3

    def configure_optimizers(self):
        trained = [weight for weight in self.parameters() if weight.requires_grad]
        return torch.optim.Adam(trained, lr=self.lr)


class Tutorial(L.LightningModule):
    """As in Lightning's tutorial: its own optimizer, and metrics without a slash."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def training_step(self, batch, batch_idx):
        image, label = batch
        return nn.functional.cross_entropy(self.net(image), label)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.training_step(batch, batch_idx))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Rows(Dataset):
    """Images and labels; noise is added to an image when it is read."""

    def __init__(self, n, noise):
        rng = np.random.default_rng(0)
        self.image = torch.from_numpy(rng.random((n, 1, 8, 8), np.float32))
        self.label = torch.from_numpy(rng.integers(0, 10, n))
        self.noise = noise

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        drawn = torch.rand(1) + np.random.rand() + random.random()  # noqa: NPY002
        return self.image[i] + self.noise * drawn.float(), self.label[i]


class Stream(IterableDataset):
    def __iter__(self):
        rows = Rows(700, 0.2)
        return (rows[i] for i in range(700))


class OwnSampler(Sampler):
    def __iter__(self):
        return iter(range(700))

    def __len__(self):
        return 700


class Batches:
    def __init__(self, batches):
        self.batches = list(batches)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


class PlainData(L.LightningDataModule):
    """torch's own DataLoader over own images, with random augmentation.

    Args:
        path: the kind of the training data, such as `second`; a key that each data set has.
    """

    def __init__(self, num_workers="auto", path="", **_):
        super().__init__()
        self.kind = path
        self.options = {"batch_size": 50}
        if num_workers != "auto":
            stay = self.kind == "persistent"
            self.options |= {"num_workers": num_workers, "persistent_workers": stay}

    def train_dataloader(self):
        rows = Rows(700, 0.2)
        if self.kind == "stream":
            return DataLoader(Stream(), **self.options)
        if self.kind == "sampler":
            return DataLoader(rows, sampler=OwnSampler(), **self.options)
        if self.kind == "iterable":
            return Batches(DataLoader(rows, **self.options))
        if self.kind == "generator":
            rows.transforms = [np.random.default_rng(0)]
        generator = torch.Generator().manual_seed(5) if self.kind == "own seed" else None
        loader = DataLoader(rows, shuffle=True, generator=generator, **self.options)
        if self.kind == "second":
            # Shorter than the first, so it begins again within an epoch.
            return [loader, DataLoader(Rows(250, 0.2), shuffle=True, **self.options)]
        return loader

    def on_after_batch_transfer(self, batch, dataloader_idx):
        """The images of two loaders are mixed."""
        if not isinstance(batch[0], list):
            return batch
        (image, label), (other, _) = batch
        return image + other[: len(image)], label

    def val_dataloader(self):
        return DataLoader(Rows(150, 0.1), **self.options)

    def test_dataloader(self):
        return DataLoader(Rows(100, 0.0), **self.options)


TIMES = ("time_unix_s", "attempt")


class Stopper(L.Callback):
    """Sends TERM to this process at a place: train:7 (after that many steps), val:2 (in the second batch of a
    validation), epoch:1 (when that epoch begins)."""

    def __init__(self, place):
        self.place, _, number = place.partition(":")
        self.number = int(number or 0)
        self.n_validated = 0

    def state_dict(self):
        """Nothing: each attempt counts anew."""
        return {}

    def send(self):
        os.kill(os.getpid(), signal.SIGTERM)

    def on_train_batch_start(self, trainer, *_):
        if self.place == "train" and trainer.global_step == self.number - 1:
            self.send()

    def on_validation_batch_start(self, *_):
        self.n_validated += 1
        if self.place == "val" and self.n_validated == self.number:
            self.send()

    def on_train_epoch_end(self, trainer, *_):
        if self.place == "epoch" and trainer.current_epoch == self.number:
            self.send()


@dataclass
class FolderOfRun:
    """What train.py reads of a run."""

    dir: Path
    record: dict = field(default_factory=lambda: {"code": {}})
    id: str = "20260101-000000-aaaaaa"
    trial: str = "baseline"
    data: dict = field(default_factory=dict)

    @property
    def checkpoints(self):
        return self.dir / "checkpoints"


@dataclass
class Outcome:
    """What an attempt left."""

    was_stopped: bool
    rows: list[dict]
    checkpoint: dict
    start: dict  # its start.json
    metrics: dict  # the final ones, with those of the test

    def differences(self, other):
        """What differs from another run: weights, optimizer, rows that only one of them has."""
        parts = ("state_dict", "optimizer_states")
        found = [part for part in parts if not same(self.checkpoint[part], other.checkpoint[part])]
        found += [row for row in self.rows if row not in other.rows]
        found += [row for row in other.rows if row not in self.rows]
        return found


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


SMALL_NETWORK = (*ONE_EPOCH, *NO_ARGUMENTS, "model._target_=attempts.Net", "log.every_n_steps=4")


@cache
def composed_settings(home, overrides):
    """Composed once for all attempts with these overrides: it takes longer than to train so few steps."""
    return compose(Project(home, "myproj"), list(overrides)).settings


def attempt(home, folder, *overrides, stop="never", base=SMALL_NETWORK):
    """One attempt of the run in `folder`, as train.py makes it.

    Args:
        base: the trial, and what it is without `overrides`.
    """
    run = FolderOfRun(folder)
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    n = 1 + len(list(folder.glob("attempts/*")))
    (folder / "attempts" / str(n)).mkdir(parents=True)
    settings = deepcopy(composed_settings(home, (*base, *overrides)))
    stopper = {"_target_": "attempts.Stopper", "place": stop}
    settings["callbacks"] = (settings["callbacks"] or {}) | {"stopper": stopper}
    (folder / "overrides.txt").write_text("\n".join(overrides))
    record = Attempt(folder, n)  # train starts it, when the parts are built
    was_stopped = False
    STOP.signum = 0
    # The ranks agree after each batch, so that the places are exact.
    often = mock.patch.object(PreemptionCallback.__init__, "__kwdefaults__", {"interval_s": 1e-6})
    recording = Recording(record, n, {})
    try:
        with often:
            train(DictConfig(settings), run, recording)
    except Stopped:
        was_stopped = True
    rows = [
        {name: value for name, value in row.items() if name not in TIMES}
        for row in read_metrics(folder)
    ]
    checkpoint = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    start = read_advisory(record.dir / "start.json")
    return Outcome(was_stopped, rows, checkpoint, start, recording.metrics)


def attempts(home, folder, *overrides, stops, base=SMALL_NETWORK):
    """A run that is stopped at each of these places, and then resumes to its end."""
    for stop in stops:
        attempt(home, folder, *overrides, stop=stop, base=base)
    return attempt(home, folder, *overrides, base=base)


def say(*_):
    print("a callback of functions", flush=True)


def n_images(batch):
    return len(batch[0])
