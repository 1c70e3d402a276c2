"""A classifier whose targets may be shares of several classes, and are smoothed in training."""

from torch import Tensor
from torch.nn import functional as F

from ...task import Classifier


class SmoothClassifier(Classifier):
    """Cross-entropy with label smoothing (arXiv:1512.00567): all classes divide the share
    `label_smoothing`, 0..1, of the target."""

    def __init__(self, model, optimizer, schedule, label_smoothing: float = 0.0) -> None:
        super().__init__(model, optimizer, schedule)
        self.label_smoothing = label_smoothing

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        """`acc` counts the class with the largest share; of mixed images it stays lower."""
        image_BCHW, target_BC = batch
        score_BC = self.model(image_BCHW)
        loss = F.cross_entropy(score_BC, target_BC, label_smoothing=self.label_smoothing)
        is_right = score_BC.detach().argmax(1) == target_BC.argmax(1)
        return {"loss": loss, "acc": is_right.float().mean()}
