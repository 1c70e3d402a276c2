"""Predicts each token from those before it."""

import math

import lightning.pytorch as L
from labrig import scheduled
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F


class LanguageModel(L.LightningModule):
    """Cross-entropy of the next token; `bits` is the same in bits."""

    def __init__(self, model: nn.Module, optimizer, schedule) -> None:
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.make_schedule = schedule

    def training_step(self, batch: tuple[Tensor], batch_idx: int) -> dict[str, Tensor]:
        (token_BT,) = batch
        score_BTV = self.model(token_BT[:, :-1])
        loss = F.cross_entropy(score_BTV.flatten(0, 1), token_BT[:, 1:].flatten())
        return {"loss": loss, "bits": loss.detach() / math.log(2)}

    validation_step = training_step
    test_step = training_step

    def configure_optimizers(self) -> OptimizerLRScheduler:
        return scheduled(self.make_optimizer(self.parameters()), self.make_schedule, self.trainer)
