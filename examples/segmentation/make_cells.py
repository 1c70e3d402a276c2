"""Draws what a microscope might see: python make_cells.py FOLDER. It stands for raw data of your own.

FOLDER/images/p03_1.png   RGB, 64x64: image 1 of patient 3
FOLDER/masks/p03_1.png    0 background, 128 cell, 255 its nucleus
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

N_PATIENTS, N_IMAGES, SIDE = 20, 6, 64
CELL, NUCLEUS = 128, 255


def draw(rng: np.random.Generator, brightness: float) -> tuple[Image.Image, Image.Image]:
    """An image and its mask."""
    mask = Image.new("L", (SIDE, SIDE))
    pen = ImageDraw.Draw(mask)
    for _ in range(rng.integers(2, 6)):
        x, y = rng.integers(8, SIDE - 8, 2)
        width, height = rng.integers(5, 11, 2)
        pen.ellipse([x - width, y - height, x + width, y + height], fill=CELL)
        pen.ellipse([x - 3, y - 3, x + 3, y + 3], fill=NUCLEUS)
    values = np.asarray(mask)
    grey = brightness + 25.0 * (values > 0) - 30.0 * (values == NUCLEUS)
    grey[rng.random(grey.shape) < 0.03] += 60  # dust, which is no cell
    noisy = grey[..., None] + rng.normal(0, 20, (SIDE, SIDE, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), mask


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for patient in range(N_PATIENTS):
        brightness = rng.uniform(70, 150)
        for number in range(N_IMAGES):
            name = f"p{patient:02d}_{number}.png"
            image, mask = draw(rng, brightness)
            image.save(folder / "images" / name)
            mask.save(folder / "masks" / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
