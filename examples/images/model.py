"""A small ResNet (arXiv:1512.03385) for small images."""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions around which the input is added; `stride` 2 halves the image."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x) + self.shortcut(x))


class ResNet(nn.Sequential):
    """Class scores (B, n_classes) of images (B, 3, H, W) in 0..1."""

    def __init__(self, width: int = 16, n_classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(3, width, 3, stride=2, padding=1),
            Block(width, width, stride=1),
            Block(width, 2 * width, stride=2),
            Block(2 * width, 4 * width, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, n_classes),
        )
