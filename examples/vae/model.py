"""A variational autoencoder (arXiv:1312.6114) of two small networks."""

import torch
from torch import nn


class VAE(nn.Module):
    """Images (B, 1, side, side) in 0..1 to `n_latent` numbers and back.

    Args:
        n_latent: numbers that an image is squeezed into, >= 1.
        width: of the hidden layers.
    """

    def __init__(self, n_latent: int = 8, width: int = 256, side: int = 8) -> None:
        super().__init__()
        self.n_latent = n_latent
        self.encoder = nn.Sequential(
            nn.Flatten(),
            nn.Linear(side * side, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 2 * n_latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(n_latent, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, side * side),
            nn.Sigmoid(),
            nn.Unflatten(1, (1, side, side)),
        )

    def forward(self, image_B1HW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The images again, and mean and log variance (B, n_latent) of what they were squeezed into.

        In training a sample of that distribution is decoded, else its mean.
        """
        mean, log_variance = self.encoder(image_B1HW).chunk(2, dim=1)
        z = mean
        if self.training:
            z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(z), mean, log_variance

    @torch.no_grad()
    def sample(self, n: int) -> torch.Tensor:
        """(n, 1, side, side) new images."""
        return self.decoder(torch.randn(n, self.n_latent))
