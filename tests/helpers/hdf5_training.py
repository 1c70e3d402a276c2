"""Trains a small model with every kind of random augmentation, and stops at a given step."""

import hashlib
from pathlib import Path

import lightning
import numpy as np
import torch
from labrig.data import H5DataModule, write_data_file
from lightning.pytorch.plugins.environments import LightningEnvironment

N, BATCH_SIZE = 203, 8


class Stop(Exception):
    """What a kill looks like from inside."""


class Data(H5DataModule):
    """`wav` cropped at random, noise added by `transform`, more noise on the device."""

    @staticmethod
    def transform(batch, rng):
        index, wav = batch
        return index, wav + torch.from_numpy(rng.normal(size=wav.shape).astype(np.float32))

    def on_after_batch_transfer(self, batch, dataloader_idx):
        index, wav = batch
        if self.trainer.training:
            wav = wav + torch.rand(wav.shape, generator=self.generator(wav.device))
        return index, wav


class Task(lightning.LightningModule):
    def __init__(self, stop_after=None, checkpoint=None):
        super().__init__()
        self.layer = torch.nn.Linear(32, 1)
        self.stop_after, self.checkpoint = stop_after, checkpoint
        self.seen = []

    def training_step(self, batch, batch_idx):
        index, wav = batch
        self.seen.append([self.trainer.current_epoch, *index.tolist()])
        return ((self.layer(wav)[:, 0] - index / N) ** 2).mean()

    def validation_step(self, batch, batch_idx):
        self.seen.append(["val", *batch[0].tolist()])

    def on_train_batch_end(self, *_):
        if self.trainer.global_step == self.stop_after:
            self.trainer.save_checkpoint(self.checkpoint)
            raise Stop

    def on_train_epoch_end(self):
        if self.stop_after == -self.trainer.current_epoch - 1:  # after the epoch, before the next
            self.trainer.save_checkpoint(self.checkpoint)
            raise Stop

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


def make_file(path: Path) -> None:
    rng = np.random.default_rng(0)
    wav = [rng.normal(size=rng.integers(20, 60)).astype(np.float32) for _ in range(N)]
    write_data_file(
        path,
        {"index": np.arange(N, dtype=np.int64), "wav": wav},
        {"train": range(N - 20), "val": range(N - 20, N)},
    )


def train(
    directory: Path,
    *,
    stop_after=None,
    resume=False,
    num_workers=0,
    world=1,
    epochs=3,
    batch_size=BATCH_SIZE,
    block=None,
    name="data.h5",
    **options,
):
    """One attempt: what was seen, and the hash of the final weights.

    block: samples in a block, where it reads whole blocks; None: as data.order=auto decides.
    stop_after: the step, or minus the number of epochs, after which it saves a checkpoint and ends.
    """
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    data = Data(
        str(directory / name),
        fields=("index", "wav"),
        shapes={"wav": 32},
        batch_size=batch_size,
        seed=3,
        num_workers=num_workers,
    )
    if block is not None:
        data.block = block
    task = Task(stop_after, directory / "last.ckpt")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=world,
        strategy="ddp" if world > 1 else "auto",
        plugins=[LightningEnvironment()] if world > 1 else [],
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )
    try:
        trainer.fit(task, data, ckpt_path=directory / "last.ckpt" if resume else None)
    except Stop:
        data.teardown("fit")
    finally:
        torch.use_deterministic_algorithms(False)  # for the tests that follow
    weights = torch.cat([parameter.detach().flatten() for parameter in task.parameters()])
    digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
    return {
        "rank": trainer.global_rank,
        "seen": task.seen,
        "weights": digest,
        "step": trainer.global_step,
    }
