"""A small U-Net (arXiv:1505.04597)."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Sequential):
    """Two convolutions, which keep the height and width."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(
            nn.Conv2d(n_in, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """Class scores (B, n_classes, H, W) of images (B, n_channels, H, W) in 0..1, of any size.

    Args:
        width: channels of the first block; each of the `depth` levels below has twice as many.
    """

    def __init__(
        self, width: int = 16, depth: int = 2, n_classes: int = 2, n_channels: int = 3
    ) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(map(Block, [n_channels, *widths], widths))
        self.up = nn.ModuleList(Block(below + here, here) for here, below in pairwise(widths))
        self.head = nn.Conv2d(width, n_classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = [self.down[0](x)]
        for block in self.down[1:]:
            kept.append(block(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for block, beside in zip(reversed(self.up), reversed(kept), strict=True):
            x = F.interpolate(x, size=beside.shape[-2:], mode="nearest")
            x = block(torch.cat([beside, x], 1))
        return self.head(x)
