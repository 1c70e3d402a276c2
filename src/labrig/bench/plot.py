"""Draws curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..machine.own_output import PICTURE_FACTS

Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Picture:
    """Curves by name over one horizontal axis; `marked` is a place on that axis."""

    x_label: str
    y_label: str
    curves: Mapping[str, Curve]
    marked: float | None = None


def draw(path: Path, picture: Picture) -> None:
    """Writes a PNG or SVG. A horizontal axis that spans a factor of 16 is logarithmic."""
    from matplotlib.figure import Figure  # optional, and slow to import

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for name, curve in picture.curves.items():
        axes.plot(*zip(*curve, strict=True), label=name)
    left, right = axes.dataLim.intervalx
    if left > 0 and right / left >= 16:
        axes.set_xscale("log")
    axes.set(xlabel=picture.x_label, ylabel=picture.y_label, ylim=(0, None))
    if picture.marked is not None:
        label = f"{picture.marked:.3g}"
        axes.axvline(picture.marked, linestyle="--", color="gray", label=label)
    axes.legend()
    figure.savefig(path, dpi=150, metadata=PICTURE_FACTS)
