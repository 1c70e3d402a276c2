"""A few samples with targets and predictions, as a picture and as a table."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...record.files.atomic import write_file

# Draws samples: images in a grid, waveforms with their spectrograms.

LEAST_SIDE = 4  # pixels of an image
LEAST_WAVE = 1000  # samples of a waveform; a shorter row of numbers is one of a table
MAX_GRID_COLUMNS = 4
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
    others = {"target": target, "prediction": as_image(prediction, target)}
    rows = {"": x} | {
        name: part
        for name, part in others.items()
        if part is not None and part.shape[-2:] == x.shape[-2:] and kind_of(part) == "image"
    }
    draw_images(file, rows, titles, n_classes=n_pixel_classes(prediction, target))


def n_pixel_classes(prediction: Tensor | None, target: Tensor | None) -> int | None:
    """C, where the prediction is scores (n, C, H, W) of the classes (n, H, W) of pixels; else None."""
    if prediction is None or target is None or target.is_floating_point() or target.ndim != 3:
        return None
    if prediction.ndim != 4 or prediction.shape[1] < 2 or not prediction.is_floating_point():
        return None
    fits = prediction[:, 0].shape == target.shape
    return prediction.shape[1] if fits else None


def as_image(prediction: Tensor | None, target: Tensor | None) -> Tensor | None:
    """The best class of each pixel, of scores (n, C, H, W): of classes of pixels, or of more classes
    than an image has channels.
    """
    if prediction is None or prediction.ndim != 4:
        return prediction
    if n_pixel_classes(prediction, target) or prediction.shape[1] not in (1, 3, 4):
        return prediction.argmax(1)
    return prediction


def draw_images(
    file: Path, rows: dict[str, Tensor], titles: list[str], n_classes: int | None
) -> None:
    """A column for each sample: the image, and below it what is predicted.

    Args:
        n_classes: of target and prediction, which then have one scale; None: each image has its own.
    """
    from matplotlib.figure import Figure  # optional, and slow to import

    n_columns = min(MAX_GRID_COLUMNS, len(titles))
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
            if name and n_classes:
                numbers = class_pixels(images[n])
                axes.imshow(numbers, "viridis", vmin=0, vmax=n_classes - 1, interpolation="nearest")
            else:
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


def class_pixels(classes: Tensor) -> Any:
    """(H, W) of class numbers; NaN, which is drawn white, where a pixel is ignored."""
    values = classes.float()
    values[classes < 0] = math.nan
    return values.numpy()


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


TARGETS = ("label", "labels", "target", "targets", "y")  # keys of a batch that is a dict
MAX_COLUMNS = 20  # features of a sample in the table


@dataclass(frozen=True)
class Samples:
    """Samples on the CPU.

    Args:
        x: (n, ...), as the network sees them.
        target: (n, ...), or None.
        prediction: (n, ...), or None: class scores (n, C), a number, or something like x.
    """

    x: Tensor
    target: Tensor | None
    prediction: Tensor | None

    def save(
        self, folder: Path, step: int, class_names: list[str], sample_rate_hz: float | None
    ) -> None:
        """Writes a table, and for images and waveforms a picture."""
        rows = self.rows(class_names)
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(max(rows, key=len)))
        table.writeheader()
        table.writerows(rows)
        write_file(samples_file(folder, step, "csv"), text.getvalue())
        if kind_of(self.x) != "table":
            titles = [title_of(row) for row in rows]
            file = samples_file(folder, step, "png")
            draw_samples(file, self.x, self.target, self.prediction, titles, sample_rate_hz)

    def rows(self, class_names: list[str]) -> list[dict[str, Any]]:
        """A row for each sample: what it is, what the network says, and of a table its features."""
        rows = []
        for n in range(len(self.x)):
            row: dict[str, Any] = {"sample": n}
            if self.target is not None and self.target[n].numel() == 1:
                row["target"] = name_of(self.target[n].item(), class_names)
            row |= self.prediction_of(n, class_names)
            prediction, target = self.prediction, self.target
            if not (prediction is None or target is None) and n_pixel_classes(prediction, target):
                row |= pixel_scores(prediction[n].argmax(0), target[n])
            if kind_of(self.x) == "table":
                features = self.x[n].flatten()[:MAX_COLUMNS].tolist()
                row |= {f"x{i}": value for i, value in enumerate(features)}
            rows.append(row)
        return rows

    def prediction_of(self, n: int, class_names: list[str]) -> dict[str, Any]:
        """The class with its probability, or the number, that is predicted for a sample."""
        if self.prediction is None:
            return {}
        output = self.prediction[n]
        target = self.target
        is_label = target is not None and not target.is_floating_point() and target.ndim == 1
        if output.ndim == 1 and output.numel() > 1 and is_label:
            best = int(output.argmax().item())
            share = output.softmax(0)[best].item()
            return {"prediction": name_of(best, class_names), "probability": round(share, 4)}
        if output.numel() == 1:
            return {"prediction": name_of(output.item(), class_names)}
        return {}


def pixel_scores(prediction: Tensor, target: Tensor) -> dict[str, float]:
    """Of the classes (H, W) of one sample: the share of right pixels, and the intersection over
    union, a mean over the classes that are there or predicted. Pixels below 0 do not count.
    """
    counted = target >= 0
    prediction, target = prediction[counted], target[counted]
    if not len(target):
        return {}
    shares = []
    for number in torch.cat([prediction, target]).unique():
        either = (prediction == number) | (target == number)
        both = (prediction == number) & (target == number)
        shares.append(float(both.sum() / either.sum()))
    right = float((prediction == target).float().mean())
    return {"right": round(right, 4), "iou": round(sum(shares) / len(shares), 4)}


def samples_of(batch: Any, prediction: Any, n: int) -> Samples | None:
    """The first n samples of a batch; None when the batch has no tensor."""
    x, target = input_and_target(batch)
    if x is None:
        return None
    parts: Any = [on_cpu(part, n) for part in (x, target, first_tensor(prediction))]
    return Samples(*parts)


def on_cpu(part: Tensor | None, n: int) -> Tensor | None:
    if part is None or part.ndim == 0:
        return None
    values = part[:n].detach().cpu()
    return values.float() if values.is_floating_point() else values


def input_and_target(batch: Any) -> tuple[Tensor | None, Tensor | None]:
    """What goes into a network, and what should come out: the first two tensors of a batch, or of a
    dict the entry with a name such as label."""
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, Mapping):
        targets = [batch[key] for key in TARGETS if isinstance(batch.get(key), Tensor)]
        inputs = [
            part for key, part in batch.items() if key not in TARGETS and isinstance(part, Tensor)
        ]
        return next(iter(inputs), None), next(iter(targets), None)
    if isinstance(batch, list | tuple):
        tensors = [part for part in batch if isinstance(part, Tensor)]
        return next(iter(tensors), None), tensors[1] if len(tensors) > 1 else None
    return None, None


def first_tensor(output: Any) -> Tensor | None:
    """The output of a network: a tensor, or the first in a tuple or dict."""
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, Mapping) else output
    if not isinstance(output, Mapping | list | tuple):
        return None
    return next((part for part in parts if isinstance(part, Tensor)), None)


def name_of(value: float, class_names: list[str]) -> Any:
    """The name of a class; a number that is none, with six digits."""
    if isinstance(value, int):
        return class_names[value] if 0 <= value < len(class_names) else value
    return float(f"{value:.6g}")


def title_of(row: dict[str, Any]) -> str:
    """`3: 5 (0.92)`: the target, and what is predicted; of classes of pixels `iou 0.92`."""
    if "iou" in row:
        return f"iou {row['iou']:.2f}"
    parts = [str(row[name]) for name in ("target", "prediction") if name in row]
    share = f" ({row['probability']:.2f})" if "probability" in row else ""
    return ": ".join(parts) + share


def samples_file(folder: Path, step: int, ending: str) -> Path:
    return folder / f"samples-{step:08d}.{ending}"
