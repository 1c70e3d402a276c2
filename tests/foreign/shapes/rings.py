"""A small classifier with BatchNorm and dropout, for callbacks that average weights."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.nn import functional as F


class Rings(L.LightningModule):
    def __init__(self, lr: float = 0.05):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2)
        )

    def step(self, batch, stage):
        point_B2, ring_B = batch
        score_B2 = self.net(point_B2)
        loss = F.cross_entropy(score_B2, ring_B)
        self.log(f"{stage}_loss", loss)
        self.log(f"{stage}_acc", (score_B2.argmax(1) == ring_B).float().mean(), on_epoch=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def test_step(self, batch, batch_idx):
        self.step(batch, "test")

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]
