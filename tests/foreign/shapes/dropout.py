"""A script's network with dropout, and its data: torch's own DataLoader, shuffled, over arrays of a file."""

import h5py
import lightning.pytorch as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Dropping(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)
        )

    def training_step(self, batch, batch_idx):
        image_B1HW, label_B = batch
        return F.cross_entropy(self.net(image_B1HW), label_B)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.training_step(batch, batch_idx))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Arrays(L.LightningDataModule):
    """Splits of a data file, read by h5py.

    Args:
        path: of the file.
        draws: `torch`, as a port of this class says it.
    """

    def __init__(self, path, draws="torch"):
        super().__init__()
        self.draws = draws
        self.splits = {}
        with h5py.File(path) as file:
            for name in ("train", "val"):
                rows = file[f"splits/{name}"][:]
                fields = [torch.from_numpy(file[f"data/{field}"][:])[rows] for field in ("x", "y")]
                self.splits[name] = TensorDataset(fields[0].float() / 16, fields[1])

    def train_dataloader(self):
        return DataLoader(self.splits["train"], batch_size=64, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.splits["val"], batch_size=64)
