"""Forecasts of several days, with the error of a simple rule next to theirs."""

from torch import Tensor
from torch.nn import functional as F

from ...task import Classifier
from .model import week_ago


class Forecasting(Classifier):
    """Squared error of standardised values. `mae` is the mean absolute error in MW, `mse` that of the
    squares; `mae_rule` is the error of "as a week ago".
    """

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        demand_BT, temperature_BT = batch
        past_BP, next_BN = demand_BT.split([self.model.n_past, self.model.n_next], dim=1)
        predicted_BN = self.model(past_BP, temperature_BT)
        next_MW = self.in_MW(next_BN)
        error_MW = self.in_MW(predicted_BN.detach()) - next_MW
        rule_MW = self.in_MW(week_ago(past_BP, self.model.n_next)) - next_MW
        return {
            "loss": F.mse_loss(predicted_BN, next_BN),
            "mae": error_MW.abs().mean(),
            "mse": error_MW.square().mean(),
            "mae_rule": rule_MW.abs().mean(),
        }

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes for each window, in MW."""
        demand_BT, temperature_BT = batch
        past_BP, next_BN = demand_BT.split([self.model.n_past, self.model.n_next], dim=1)
        predicted_BN = self.model(past_BP, temperature_BT)
        return {"forecast": self.in_MW(predicted_BN), "demand": self.in_MW(next_BN)}

    def in_MW(self, standardized: Tensor) -> Tensor:
        """Back to the unit of the data, by mean and deviation of the training part."""
        statistics = self.trainer.datamodule.statistics["demand"]
        return standardized * statistics["std"].item() + statistics["mean"].item()
