"""Drawn shapes in colour, and what is done to a batch of them on the device."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from labrig import H5DataModule
from torch.nn import functional as F

CLASSES = ("disc", "ring", "square", "diamond", "cross", "triangle")
SIDE = 32  # pixels
N_TRAIN, N_VAL, N_TEST = 720, 240, 1440


class Shapes(H5DataModule):
    """2,400 images of 3x32x32 with one of six shapes in noise.

    Args:
        shift_pixels: largest move in each direction, >= 0; 0: neither moved nor flipped.
        mixup: alpha of the Beta distribution of mixup (arXiv:1710.09412), >= 0; 0: no mixup.
    """

    def __init__(self, shift_pixels: int = 4, mixup: float = 0.2, **settings: Any) -> None:
        super().__init__(**settings)
        self.shift_pixels = shift_pixels
        self.mixup = mixup

    @classmethod
    def samples(cls, source: None) -> Iterator[dict[str, Any]]:
        rng = np.random.default_rng(0)
        for split, n_samples in (("train", N_TRAIN), ("val", N_VAL), ("test", N_TEST)):
            for n in range(n_samples):
                label = n % len(CLASSES)
                image = draw(CLASSES[label], rng)
                yield {"x": image, "y": np.int64(label), "split": split}

    def on_after_batch_transfer(self, batch: tuple, dataloader_idx: int) -> tuple:
        """(image_BCHW, label_B); in training labels are (B, C) shares of the classes."""
        image, *labels = batch
        image = image.float() / 255
        if not self.trainer.training:
            return image, *labels
        generator = self.generator(image.device)  # the same numbers again after a resume
        if self.shift_pixels:
            image = augment(image, self.shift_pixels, generator)
        target = F.one_hot(labels[0], len(CLASSES)).float()
        if self.mixup:
            share = np.random.default_rng(generator.initial_seed()).beta(self.mixup, self.mixup)
            other = torch.randperm(len(image), generator=generator, device=image.device)
            image = share * image + (1 - share) * image[other]
            target = share * target + (1 - share) * target[other]
        return image, target


def augment(image: torch.Tensor, pixels: int, generator: torch.Generator) -> torch.Tensor:
    """Moves each image (B, C, H, W) by up to `pixels` in both directions, and flips half of them."""
    B, _, H, W = image.shape
    device = image.device
    padded = F.pad(image, [pixels] * 4, mode="reflect").permute(0, 2, 3, 1)
    start = torch.randint(0, 2 * pixels + 1, (2, B, 1), generator=generator, device=device)
    rows = start[0] + torch.arange(H, device=device)
    columns = start[1] + torch.arange(W, device=device)
    sample = torch.arange(B, device=device)[:, None, None]
    moved = padded[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    is_flipped = torch.rand(B, generator=generator, device=device) < 0.5
    return torch.where(is_flipped[:, None, None, None], moved.flip(-1), moved)


def draw(shape: str, rng: np.random.Generator) -> np.ndarray:
    """An image, uint8 (3, SIDE, SIDE)."""
    radius = rng.uniform(6, 11)
    x, y = np.mgrid[:SIDE, :SIDE] - rng.uniform(11, 21, (2, 1, 1))
    angle = rng.uniform(-0.2, 0.2)
    u = (np.cos(angle) * x - np.sin(angle) * y) / radius
    v = (np.sin(angle) * x + np.cos(angle) * y) / radius
    distance = np.hypot(u, v)
    inside = {
        "disc": distance < 0.9,
        "ring": (distance < 1) & (distance > 0.6),
        "square": np.maximum(abs(u), abs(v)) < 0.8,
        "diamond": abs(u) + abs(v) < 1.1,
        "cross": (np.minimum(abs(u), abs(v)) < 0.3) & (np.maximum(abs(u), abs(v)) < 1),
        "triangle": (u < 0.7) & (u - 2 * abs(v) > -1),
    }[shape]
    background = rng.uniform(0.2, 0.8, (3, 1, 1))
    colour = background + rng.choice([-1, 1]) * rng.uniform(0.1, 0.3, (3, 1, 1))
    image = np.where(inside, colour, background) + rng.normal(0, 0.1, (3, SIDE, SIDE))
    return (255 * image.clip(0, 1)).astype(np.uint8)
