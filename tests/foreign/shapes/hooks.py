"""Hooks that few people write: each changes what a step does."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.nn import functional as F

from shapes.data import NamedLoaders

N_STEPS_OF_EPOCH = 9  # of the 12 that the loaders have
WARMUP = 6  # steps


class UnusualData(NamedLoaders):
    def on_before_batch_transfer(self, batch, dataloader_idx):
        """Each point is moved; the other loader's are the same."""
        if isinstance(batch, dict):
            point_B2, ring_B = batch["labelled"]
            batch["labelled"] = (point_B2 + 0.01, ring_B)
        return batch


class Unusual(L.LightningModule):
    def __init__(self, lr=0.05):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))
        self.n_clipped = 0

    def on_train_batch_start(self, batch, batch_idx):
        """The rest of the epoch is left out."""
        return -1 if batch_idx >= N_STEPS_OF_EPOCH else None

    def training_step(self, batch, batch_idx):
        if batch_idx % 4 == 3:
            return None  # nothing to learn from this batch
        point_B2, ring_B = batch["labelled"]
        other_B2, _ = batch["unlabelled"]
        loss = F.cross_entropy(self.net(point_B2), ring_B)
        consistency = (self.net(other_B2) - self.net(-other_B2)).square().mean()
        self.log("train_loss", loss, on_step=True, on_epoch=True, batch_size=len(ring_B))
        return {"loss": loss + 0.1 * consistency, "n": len(ring_B)}

    def validation_step(self, batch, batch_idx):
        point_B2, ring_B = batch
        self.log("val_loss", F.cross_entropy(self.net(point_B2), ring_B))

    def configure_gradient_clipping(
        self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
    ):
        norm = nn.utils.clip_grad_norm_(self.net[0].parameters(), 0.1)
        self.n_clipped += bool(norm > 0.1)

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        """A warm-up by hand."""
        scale = min(1.0, (self.trainer.global_step + 1) / WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = scale * self.lr
        optimizer.step(closure=optimizer_closure)

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        optimizer.zero_grad(set_to_none=False)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["n_clipped"] = self.n_clipped

    def on_load_checkpoint(self, checkpoint):
        self.n_clipped = checkpoint["n_clipped"]
