"""A class for each pixel: cross-entropy, and the intersection over union of the whole split."""

import lightning.pytorch as L
from labrig import scheduled
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassJaccardIndex

IGNORED = -100  # pixels that do not count: values that `data.classes` leaves out


class Segmenter(L.LightningModule):
    """Images (B, 3, H, W) in 0..1 and class numbers (B, H, W).

    `iou` is the mean over the classes, each counted over all pixels of a split. A mean of the
    batches would be another number, which depends on their size.
    """

    def __init__(self, model: nn.Module, optimizer, schedule, n_classes: int) -> None:
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.val_iou = MulticlassJaccardIndex(n_classes, ignore_index=IGNORED)
        self.test_iou = MulticlassJaccardIndex(n_classes, ignore_index=IGNORED)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        image_B3HW, class_BHW = batch
        loss = F.cross_entropy(self.model(image_B3HW), class_BHW, ignore_index=IGNORED)
        return {"loss": loss}

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return self._evaluate(batch, "val/iou", self.val_iou)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return self._evaluate(batch, "test/iou", self.test_iou)

    def _evaluate(self, batch: tuple[Tensor, Tensor], name: str, iou: MulticlassJaccardIndex):
        image_B3HW, class_BHW = batch
        score_BCHW = self.model(image_B3HW)
        iou(score_BCHW, class_BHW)
        self.log(name, iou, on_step=False, on_epoch=True)
        return {"loss": F.cross_entropy(score_BCHW, class_BHW, ignore_index=IGNORED)}

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes: the class of each pixel, (B, H, W)."""
        return {"class": self.model(batch[0]).argmax(1)}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        return scheduled(self.make_optimizer(self.parameters()), self.make_schedule, self.trainer)
