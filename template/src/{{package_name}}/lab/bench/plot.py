# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""Draws curves as a picture."""

from __future__ import annotations

from pathlib import Path


def draw(
    path: Path,
    x: str,
    y: str,
    curves: dict[str, list[tuple[float, float]]],
    marked: float | None = None,
) -> None:
    """Curves as a PNG or SVG; a horizontal axis that spans decades is logarithmic; `marked` is a place on it."""
    from matplotlib.figure import Figure

    axes = (picture := Figure(figsize=(6.4, 4), layout="constrained")).subplots()
    for name, curve in curves.items():
        axes.plot(*zip(*curve, strict=True), label=name)
    left, right = axes.dataLim.intervalx
    axes.set(
        xlabel=x,
        ylabel=y,
        xscale="log" if left > 0 and right / left >= 16 else "linear",
        ylim=(0, None),
    )
    if marked is not None:
        axes.axvline(marked, linestyle="--", color="gray", label=f"{marked:.3g}")
    axes.legend()
    picture.savefig(path, dpi=150)
