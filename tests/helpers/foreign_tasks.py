"""Tasks as they are written elsewhere, trained here and by Lightning alone."""

import lightning.pytorch as L
import torch
from attempts import PlainData
from hydra_tree import make_tree
from labrig.config.compose import compose
from labrig.training.parts.accelerate import accelerate
from labrig.training.parts.build import build_callbacks, build_data, build_task
from labrig.training.parts.settings import apply_settings, resolve_settings
from labrig.training.parts.trainer import plain_trainer
from labrig.training.watch.no_effect import NoEffect
from myproj.task import Classifier
from torch.nn import functional as F

SETTINGS = (
    "trial=baseline",
    "~model.width",
    "~model.n_classes",
    "model._target_=attempts.Net",
    "data._target_=attempts.PlainData",
    "trainer=cpu",
    "trainer.threads=1",
    "trainer.max_epochs=1",
    "trainer.test_after_fit=false",
)


def config_of(tmp_path, *settings):
    return compose(make_tree(tmp_path, {}), [*SETTINGS, *settings]).config


def train(config, overrides=()):
    """Trains as train.py does, without a record; returns the task, its Trainer and what is recorded."""
    config = resolve_settings(config, first_attempt={}).config
    apply_settings(config)
    data = build_data(config)
    task = accelerate(build_task(config), config)
    noted = {}
    no_effect = NoEffect(config, list(overrides), noted.update)
    trainer = plain_trainer(
        config,
        data,
        task,
        callbacks=[*build_callbacks(config), no_effect],
        enable_checkpointing=False,
    )
    trainer.fit(task, datamodule=data)
    return task, trainer, noted["trained_with"]


def plain_lightning(task, **settings):
    """Trains with Lightning alone, with the data and the seed of `train`."""
    trainer = L.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **settings,
    )
    trainer.fit(task, datamodule=PlainData())
    return task


def same_weights(one, other):
    ones, others = one.state_dict(), other.state_dict()
    return ones.keys() == others.keys() and all(map(torch.equal, ones.values(), others.values()))


class LitModule(L.LightningModule):
    """In the shape of lightning-hydra-template: `net`, `optimizer`, and a `scheduler`."""

    def __init__(self, net, optimizer, scheduler=None):
        super().__init__()
        self.net = net
        self.make_optimizer = optimizer
        self.make_scheduler = scheduler

    def training_step(self, batch, batch_idx):
        image, label = batch
        return F.cross_entropy(self.net(image), label)

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        optimizer = self.make_optimizer(self.parameters())
        if self.make_scheduler is None:
            return optimizer
        return [optimizer], [self.make_scheduler(optimizer)]


class LazyNet(torch.nn.Sequential):
    """Its sizes come with the first batch."""

    def __init__(self):
        super().__init__(
            torch.nn.Flatten(),
            torch.nn.Dropout(0.5),
            torch.nn.LazyLinear(16),
            torch.nn.ReLU(),
            torch.nn.LazyLinear(10),
        )


class Shown(Classifier):
    """Shows its network one sample before the training."""

    def __init__(self, model, optimizer, schedule):
        super().__init__(model, optimizer, schedule)
        with torch.no_grad():
            self.model(torch.zeros(1, 1, 8, 8))


class Later(Classifier):
    """Shows its network one sample when Lightning asks for the model."""

    def configure_model(self):
        with torch.no_grad():
            self.model(torch.zeros(1, 1, 8, 8))


class Odd(Classifier):
    """Passes on what it does not know."""

    def __init__(self, value=0.0, **kwargs):
        super().__init__(**kwargs)
        self.value = value


class Constant(Classifier):
    """Decides its schedule itself."""

    def __init__(self, value=0.0, **kwargs):
        super().__init__(schedule=None, **kwargs)
        self.value = value


class OwnNet(Classifier):
    """Its `**kwargs` are no part of a task."""

    def __init__(self, **kwargs):
        super().__init__(torch.nn.Linear(**kwargs), torch.optim.SGD, None)


class Named(LitModule):
    """With an optimizer by its name, and an optional schedule."""

    def __init__(self, model, optimizer="sgd", schedule=None):
        super().__init__(model, {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer])
        self.make_scheduler = schedule and (lambda optimizer: schedule(optimizer, n_steps=9))


class Made:
    """Has no training, but makes a task that has one."""

    @classmethod
    def small(cls, model, optimizer):
        return LitModule(model, optimizer)

    @staticmethod
    def nothing():
        return 3


def unchanged(decorated):
    return decorated


@unchanged
class Loose(L.LightningModule):
    """Its decorator might have changed what it takes."""

    def __init__(self, value=0.0):
        super().__init__()


class Wrapped(L.LightningModule):
    """Takes a network, and has one that comes as a LightningModule."""

    def __init__(self, model):
        super().__init__()
        self.model = model
