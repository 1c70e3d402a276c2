"""A regression whose classes are given plain values, lists and an enum."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Sequential):
    def __init__(self, widths, activation):
        layers = []
        n_in = 1
        for width in widths:
            layers += [
                nn.Linear(n_in, width),
                {"relu": nn.ReLU, "tanh": nn.Tanh}[activation.name](),
            ]
            n_in = width
        super().__init__(*layers, nn.Linear(n_in, 1))


class Regressor(L.LightningModule):
    def __init__(self, net, optimizer, noise, clip=None):
        super().__init__()
        self.net = net
        self.make = optimizer
        self.noise = noise
        self.clip = clip

    def training_step(self, batch, batch_idx):
        x_B1, y_B1 = batch
        loss = nn.functional.mse_loss(self.net(x_B1 + self.noise * torch.randn_like(x_B1)), y_B1)
        self.log("train/mse", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x_B1, y_B1 = batch
        self.log("val/mse", nn.functional.mse_loss(self.net(x_B1), y_B1))

    def configure_optimizers(self):
        return self.make(self.net.parameters())


class Sines(L.LightningDataModule):
    def __init__(self, batch_size, shuffle):
        super().__init__()
        self.batch_size = batch_size
        self.shuffle = shuffle

    def loader(self, n, shuffle=False):
        generator = torch.Generator().manual_seed(n)
        x_N1 = 6 * torch.rand(n, 1, generator=generator) - 3
        sines = TensorDataset(x_N1, x_N1.sin())
        return DataLoader(sines, self.batch_size, shuffle=shuffle, generator=generator)

    def train_dataloader(self):
        return self.loader(192, self.shuffle)

    def val_dataloader(self):
        return self.loader(64)
