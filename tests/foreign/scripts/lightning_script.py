"""A plain script for Lightning, as a first tutorial teaches it."""

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitAutoEncoder(L.LightningModule):
    def __init__(self, width: int = 8, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, 2))
        self.decoder = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 12))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Waves(L.LightningDataModule):
    def __init__(self, batch_size=16):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        generator = torch.Generator().manual_seed(1)
        phase = 6.28 * torch.rand(160, 1, generator=generator)
        self.wave = torch.sin(phase + torch.arange(12) / 2)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.wave[:128]), self.batch_size)

    def val_dataloader(self):
        return DataLoader(TensorDataset(self.wave[128:]), self.batch_size)


def main():
    L.seed_everything(7)
    data = Waves(batch_size=32)
    model = LitAutoEncoder(16, lr=0.01)
    trainer = L.Trainer(
        max_epochs=5,
        accelerator="cpu",
        gradient_clip_val=0.5,
        callbacks=[
            EarlyStopping(monitor="val_loss", patience=4),
            ModelCheckpoint(monitor="val_loss"),
        ],
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, data)
    return trainer, model


if __name__ == "__main__":
    main()
