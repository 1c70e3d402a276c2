"""Folders of images and masks to pack; for test_hdf5_pairs*.py and test_raw_pairs.py."""

import numpy as np
from PIL import Image

H, W = 24, 30


def picture(rng, sides=(H, W)):
    return rng.integers(0, 255, (*sides, 3)).astype(np.uint8)


def of_palette(numbers):
    image = Image.fromarray(numbers, "P")
    image.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200] + [9] * (768 - 9))
    return image


def pairs(root, n=8, values=(0, 255), sides=(H, W), mask=None):
    """images/p0_0.png and masks/p0_0.png …, two of each patient; returns the masks by their images."""
    rng = np.random.default_rng(0)
    mask_of = {}
    for name in ("images", "masks"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for i in range(n):
        image = picture(rng, sides)
        numbers = rng.choice(values, sides).astype(np.uint8)
        Image.fromarray(image).save(root / "images" / f"p{i // 2}_{i % 2}.png")
        saved = mask(numbers) if mask else Image.fromarray(numbers)
        saved.save(root / "masks" / f"p{i // 2}_{i % 2}.png")
        mask_of[image.transpose(2, 0, 1).tobytes()] = np.asarray(saved)
    return mask_of
