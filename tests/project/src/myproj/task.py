"""What is learned: loss, metrics, optimizer, schedule. Yours to change: lab docs own-code

A trial that needs another task has a task.py of its own.
"""

from collections.abc import Callable

import lightning.pytorch as L
from labrig import scheduled
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class Classifier(L.LightningModule):
    """Cross-entropy over classes.

    What a step returns is averaged over samples and processes (lab docs multi-gpu), and logged:
    train/loss and train/acc every log.every_n_steps steps, val/... and test/... over the whole
    split. `self.log` works as well, but takes more time.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Callable[..., Optimizer],
        schedule: Callable[[Optimizer], LRScheduler] | None,
    ) -> None:
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.make_schedule = schedule

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        """Loss and accuracy of a batch: images (B, ...) and labels (B,) in 0..n_classes-1."""
        image_B1HW, label_B = batch
        score_BC = self.model(image_B1HW)
        loss = F.cross_entropy(score_BC, label_B)
        return {"loss": loss, "acc": (score_BC.detach().argmax(1) == label_B).float().mean()}

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes, a row for each sample: the scores, and the best class."""
        score_BC = self.model(batch[0])
        return {"score": score_BC, "class": score_BC.argmax(1)}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.make_optimizer(self.parameters())
        return scheduled(optimizer, self.make_schedule, self.trainer)
