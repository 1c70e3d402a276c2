"""A small convolutional network for small images. Yours to change: lab docs own-code"""

import torch
from torch import nn


class CNN(nn.Module):
    """Two convolutions, pooling, two linear layers: 8x8 digits to class scores."""

    def __init__(self, width: int = 32, n_classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(2 * width * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, n_classes),
        )

    def forward(self, image_B1HW: torch.Tensor) -> torch.Tensor:
        """Class scores, shape (B, n_classes), for images of shape (B, 1, 8, 8) in [0, 1]."""
        return self.head(self.features(image_B1HW))
