"""Trainings in the process of the tests: small networks on the digits, and a witness of what they did."""

import contextlib
import io
from dataclasses import dataclass

import lightning.pytorch as L
import torch
from labrig.config.compose import compose
from labrig.project import Project
from labrig.training.parts.accelerate import accelerate
from labrig.training.parts.build import build_data, build_task
from labrig.training.parts.settings import apply_settings, resolve_settings
from labrig.training.parts.trainer import plain_trainer
from labrig.training.watch.means import LogMeans
from myproj.data import Digits
from torch import nn

ONE_EPOCH = ("trainer=cpu", "trainer.threads=1", "trainer.max_epochs=1")
BASELINE = ("trial=baseline",)
NO_ARGUMENTS = (*BASELINE, "~model.width", "~model.n_classes")
LINEAR = (*NO_ARGUMENTS, "model._target_=in_process.Linear")
COLOUR = (*NO_ARGUMENTS, "model._target_=in_process.Wide", "data._target_=in_process.ColourDigits")
PLAIN_SGD = (
    "optimizer=sgd",
    "optimizer.momentum=0",
    "optimizer.nesterov=false",
    "optimizer.weight_decay=0",
)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(64, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, image_B1HW):
        return self.head(self.features(image_B1HW.flatten(1)).relu())


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 10)

    def forward(self, image_B3HW):
        return self.head(self.conv(image_B3HW).mean((2, 3)))


class ColourDigits(Digits):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        image_B1HW, label_B = super().on_after_batch_transfer(batch, dataloader_idx)
        return image_B1HW.expand(-1, 3, -1, -1), label_B


class Witness(L.Callback):
    """What the network saw, and what the optimizer did."""

    def __init__(self):
        self.learning_rates = []
        self.n_forwards = 0
        self.output_dtype = None
        self.input_is_channels_last = None

    def on_fit_start(self, trainer, task):
        self.first_weights = flat(task)
        self.optimizer = trainer.optimizers[0]
        self.fused = self.optimizer.param_groups[0].get("fused")
        first_layer = next(part for part in task.modules() if not list(part.children()))
        first_layer.register_forward_hook(self.count)
        task.model.register_forward_hook(self.look)

    def count(self, *_):
        self.n_forwards += torch.is_grad_enabled()

    def look(self, network, inputs, output):
        self.output_dtype = output.dtype
        if inputs[0].ndim == 4:
            self.input_is_channels_last = inputs[0].stride()[1] == 1 and inputs[0].shape[1] > 1

    def on_train_batch_start(self, trainer, *_):
        self.learning_rates.append(trainer.optimizers[0].param_groups[0]["lr"])


@dataclass
class Training:
    task: L.LightningModule
    trainer: L.Trainer
    witness: Witness
    printed: str


def composed(home, *overrides):
    """A configuration of the running code, with the data and runs of the project in `home`."""
    return compose(Project(home, "myproj"), [*ONE_EPOCH, *overrides]).config


def learn(home, *overrides):
    """Trains as train.py does, without a record."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        config = resolve_settings(composed(home, *overrides), first_attempt={}).config
        apply_settings(config)
        data = build_data(config)
        task = accelerate(build_task(config), config)
        witness = Witness()
        trainer = plain_trainer(
            config,
            data,
            task,
            callbacks=[LogMeans(), witness],
            enable_checkpointing=False,
            log_every_n_steps=config.log.every_n_steps,
        )
        trainer.fit(task, datamodule=data)
    return Training(task, trainer, witness, printed.getvalue())


def flat(task):
    """All weights and buffers of a task as one vector."""
    return torch.cat([value.detach().flatten().float() for value in task.state_dict().values()])


def difference(one, other):
    """The largest difference of two trained tasks' weights."""
    return float((flat(one.task) - flat(other.task)).abs().max())
