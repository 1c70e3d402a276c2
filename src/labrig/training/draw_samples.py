"""Draws samples: images in a grid, waveforms with their spectrograms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

LEAST_SIDE = 4  # pixels of an image
LEAST_WAVE = 1000  # samples of a waveform; a shorter row of numbers is one of a table
MAX_COLUMNS = 4
SIDE_INCHES = 1.8
WINDOW = 256  # samples of a spectrum


def kind_of(x: Tensor) -> str:
    """image, wave or table: what samples (B, ...) are, by their shape."""
    shape = tuple(x.shape[1:])
    if len(shape) in (1, 2) and shape[-1] >= LEAST_WAVE and shape[:-1] in ((), (1,), (2,)):
        return "wave"
    has_sides = len(shape) >= 2 and min(shape[-2:]) >= LEAST_SIDE
    if has_sides and (len(shape) == 2 or (len(shape) == 3 and shape[0] in (1, 3, 4))):
        return "image"
    return "table"


def draw_samples(
    file: Path,
    x: Tensor,
    target: Tensor | None,
    prediction: Tensor | None,
    titles: list[str],
    sample_rate_hz: float | None,
) -> None:
    """Writes a PNG.

    Args:
        x: (n, ...) images or waveforms.
        target, prediction: drawn next to x where they are of its kind, such as masks.
        titles: a text for each sample.
        sample_rate_hz: of waveforms; None: the axes count samples.
    """
    if kind_of(x) == "wave":
        draw_waves(file, x, titles, sample_rate_hz)
        return
    others = {"target": target, "prediction": as_image(prediction)}
    rows = {"": x} | {
        name: part
        for name, part in others.items()
        if part is not None and part.shape[-2:] == x.shape[-2:] and kind_of(part) == "image"
    }
    draw_images(file, rows, titles)


def as_image(prediction: Tensor | None) -> Tensor | None:
    """Scores (B, C, H, W) of more classes than an image has channels: the best class of each pixel."""
    if prediction is None or prediction.ndim != 4 or prediction.shape[1] in (1, 3, 4):
        return prediction
    return prediction.argmax(1)


def draw_images(file: Path, rows: dict[str, Tensor], titles: list[str]) -> None:
    """A column for each sample: the image, and below it what is predicted."""
    from matplotlib.figure import Figure  # optional, and slow to import

    n_columns = min(MAX_COLUMNS, len(titles))
    n_blocks = math.ceil(len(titles) / n_columns)
    n_lines = n_blocks * len(rows)
    size = (SIDE_INCHES * n_columns, SIDE_INCHES * 1.2 * n_lines)
    figure = Figure(figsize=size, layout="constrained", dpi=120)
    grid = figure.subplots(n_lines, n_columns, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for n, title in enumerate(titles):
        block, column = divmod(n, n_columns)
        for i, (name, images) in enumerate(rows.items()):
            axes = grid[block * len(rows) + i, column]
            axes.imshow(pixels(images[n]), cmap="gray")
            axes.set_title(plain(name or title), fontsize=8)
    figure.savefig(file)


def pixels(image: Tensor) -> Any:
    """(H, W) or (H, W, 3), scaled to 0..1 by its own range."""
    values = image.float()
    low, high = values.min(), values.max()
    values = (values - low) / (high - low).clamp(min=1e-9)
    if values.ndim == 2:
        return values.numpy()
    return values[0].numpy() if values.shape[0] == 1 else values[:3].permute(1, 2, 0).numpy()


def draw_waves(file: Path, x: Tensor, titles: list[str], sample_rate_hz: float | None) -> None:
    """Two lines for each sample: the waveform, and the spectrogram of its first channel."""
    from matplotlib.figure import Figure  # optional, and slow to import

    rate_hz = sample_rate_hz or 1.0
    figure = Figure(figsize=(8, 2.6 * len(titles)), layout="constrained", dpi=100)
    grid = figure.subplots(len(titles), 2, squeeze=False)
    for wave, title, (left, right) in zip(x, titles, grid, strict=True):
        values = wave.float().reshape(-1, wave.shape[-1])[0].numpy()
        left.plot([n / rate_hz for n in range(len(values))], values, linewidth=0.5)
        left.set_title(plain(title), fontsize=8)
        with np.errstate(divide="ignore"):  # silence has no logarithm
            right.specgram(values + 1e-12, NFFT=WINDOW, noverlap=WINDOW // 2, Fs=rate_hz)
        left.set_xlabel("s" if sample_rate_hz else "sample")
        right.set(xlabel=left.get_xlabel(), ylabel="Hz" if sample_rate_hz else "cycles per sample")
    figure.savefig(file)


def plain(text: str) -> str:
    """A text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")
