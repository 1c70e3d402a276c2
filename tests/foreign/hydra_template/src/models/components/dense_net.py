"""A network of three layers."""

import torch
from torch import nn


class DenseNet(nn.Module):
    def __init__(
        self,
        input_size: int = 64,
        lin1_size: int = 32,
        lin2_size: int = 16,
        output_size: int = 4,
    ) -> None:
        super().__init__()
        self.model = nn.Sequential(
            nn.Linear(input_size, lin1_size),
            nn.BatchNorm1d(lin1_size),
            nn.ReLU(),
            nn.Linear(lin1_size, lin2_size),
            nn.BatchNorm1d(lin2_size),
            nn.ReLU(),
            nn.Linear(lin2_size, output_size),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x.flatten(1))
