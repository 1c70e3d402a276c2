"""LightningCLI with what it knows beyond arguments: defaults in code, links, a YAML file, a seed."""

import json

import lightning.pytorch as L
import torch
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self, lr: float = 0.1, width: int = 8, batch: int = 1, act: nn.Module = None):
        super().__init__()
        self.save_hyperparameters(ignore="act")
        act = act or nn.Identity()
        self.layers = nn.Sequential(nn.Linear(4, width), act, nn.Dropout(0.2), nn.Linear(width, 2))

    def training_step(self, batch, batch_idx):
        x_B4, label_B = batch
        loss = nn.functional.cross_entropy(self.layers(x_B4), label_B)
        print("loss", repr(loss.item()))
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


class Data(L.LightningDataModule):
    def __init__(self, batch_size: int = 8):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), self.batch_size, shuffle=True)


class CLI(LightningCLI):
    def add_arguments_to_parser(self, parser):
        parser.set_defaults({"model.lr": 0.05})
        parser.link_arguments("data.batch_size", "model.batch")


if __name__ == "__main__":
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    cli = CLI(
        Net,
        Data,
        seed_everything_default=1234,
        trainer_defaults={"gradient_clip_val": 0.1, "max_epochs": 2, "accelerator": "cpu"} | quiet,
        save_config_callback=None,
    )
    print("had", json.dumps(dict(cli.model.hparams) | {"clip": cli.trainer.gradient_clip_val}))
    print("epochs", cli.trainer.max_epochs, "seed", cli.config.fit.seed_everything)
