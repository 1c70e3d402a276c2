"""The loss of a variational autoencoder: what is lost of the image, and what the code costs."""

import lightning.pytorch as L
from labrig import scheduled
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn


class Autoencoder(L.LightningModule):
    """Squared error plus `beta` times the divergence from a normal distribution, per image.

    `mse` is the squared error of a pixel, `kl` the divergence of an image in nats.

    Args:
        beta: weight of the divergence, > 0; 1 / (2 sigma^2) of pixels with noise sigma is 1 / beta.
    """

    def __init__(self, model: nn.Module, optimizer, schedule, beta: float = 0.02) -> None:
        super().__init__()
        self.model = model
        self.make_optimizer = optimizer
        self.make_schedule = schedule
        self.beta = beta

    def training_step(self, batch: tuple[Tensor], batch_idx: int) -> dict[str, Tensor]:
        (image_B1HW,) = batch
        decoded, mean, log_variance = self.model(image_B1HW)
        error_B = (decoded - image_B1HW).square().sum((1, 2, 3))
        kl_B = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss = (error_B + self.beta * kl_B).mean()
        mse = error_B.detach().mean() / image_B1HW[0].numel()
        return {"loss": loss, "mse": mse, "kl": kl_B.detach().mean()}

    validation_step = training_step
    test_step = training_step

    def predict_step(self, batch: tuple[Tensor], batch_idx: int) -> dict[str, Tensor]:
        """What `lab predict` writes: the code of each image, (B, n_latent)."""
        return {"code": self.model(batch[0])[1]}

    def configure_optimizers(self) -> OptimizerLRScheduler:
        return scheduled(self.make_optimizer(self.parameters()), self.make_schedule, self.trainer)
