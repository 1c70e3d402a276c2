"""A few samples with targets and predictions, as a picture and as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..record.atomic import write_file
from .draw_samples import draw_samples, kind_of

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
        table = csv.DictWriter(text, list(rows[0]))
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
    """`3: 5 (0.92)`: the target, and what is predicted."""
    parts = [str(row[name]) for name in ("target", "prediction") if name in row]
    share = f" ({row['probability']:.2f})" if "probability" in row else ""
    return ": ".join(parts) + share


def samples_file(folder: Path, step: int, ending: str) -> Path:
    return folder / f"samples-{step:08d}.{ending}"
