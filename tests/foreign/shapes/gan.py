"""Two networks against each other, each with an optimizer that the module steps itself."""

import lightning.pytorch as L
import torch
from torch import nn
from torch.nn import functional as F


def net(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, 16), nn.LeakyReLU(0.2), nn.Linear(16, n_out))


class Gan(L.LightningModule):
    def __init__(self, latent_dim: int = 4, lr: float = 1e-3, b1: float = 0.5):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = net(latent_dim, 2)
        self.discriminator = net(2, 1)
        self.validation_z = torch.randn(8, latent_dim)

    def forward(self, z):
        return self.generator(z)

    def says_real(self, point_B2, is_real):
        score_B1 = self.discriminator(point_B2)
        target_B1 = torch.full_like(score_B1, float(is_real))
        return F.binary_cross_entropy_with_logits(score_B1, target_B1)

    def training_step(self, batch):
        point_B2, _ = batch
        of_generator, of_discriminator = self.optimizers()
        z = torch.randn(len(point_B2), self.hparams.latent_dim).type_as(point_B2)

        self.toggle_optimizer(of_generator)
        g_loss = self.says_real(self(z), True)
        self.log("g_loss", g_loss, prog_bar=True)
        self.manual_backward(g_loss)
        of_generator.step()
        of_generator.zero_grad()
        self.untoggle_optimizer(of_generator)

        self.toggle_optimizer(of_discriminator)
        real = self.says_real(point_B2, True)
        fake = self.says_real(self(z).detach(), False)
        d_loss = (real + fake) / 2
        self.log("d_loss", d_loss, prog_bar=True)
        self.manual_backward(d_loss)
        of_discriminator.step()
        of_discriminator.zero_grad()
        self.untoggle_optimizer(of_discriminator)

    def configure_optimizers(self):
        options = {"lr": self.hparams.lr, "betas": (self.hparams.b1, 0.999)}
        return [
            torch.optim.Adam(self.generator.parameters(), **options),
            torch.optim.Adam(self.discriminator.parameters(), **options),
        ], []
