"""Regression of one number, with the error of a simple rule next to it."""

from torch import Tensor
from torch.nn import functional as F

from ...task import Classifier
from .model import SCALE_MW, WEEK


class Regression(Classifier):
    """Huber loss. `mae` is the mean absolute error in MW, `mae_rule` that of "as a week ago"."""

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        past_BT, demand_B = batch
        predicted_B = self.model(past_BT)
        return {
            "loss": F.huber_loss(predicted_B / SCALE_MW, demand_B / SCALE_MW),
            "mae": F.l1_loss(predicted_B.detach(), demand_B),
            "mae_rule": F.l1_loss(past_BT[:, -WEEK], demand_B),
        }

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes: the demand in MW."""
        return {"demand": self.model(batch[0])}
