"""What `lab bench` shows: text for a screen of 80 columns, JSON, or a picture."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..machine.text_table import TextColumn, text_table
from .forecast import format_forecast
from .plot import Picture
from .result import BenchResult, Measurement

WIDTH = 80


@dataclass(frozen=True)
class BenchReport:
    """The result of one call of `lab bench`."""

    content: dict[str, Any]  # for --json
    text: str
    picture: Picture  # for --plot


def report_bench(bench: BenchResult, path: Path) -> BenchReport:
    """The report of a single bench, which is kept in `path`."""
    curves = {
        part: [(i, 1000 * seconds) for i, seconds in enumerate(times_s)]
        for part, times_s in bench.measured.series_s.items()
    }
    return BenchReport(bench.as_json(), format_bench(bench, path), Picture("step", "ms", curves))


def format_bench(bench: BenchResult, path: Path) -> str:
    measured = bench.measured
    paragraphs = [format_rates(measured), format_memory(measured)]
    if measured.power_w:
        paragraphs.append(
            f"{measured.power_w:.0f} W per GPU, {measured.joules_per_sample:.3g} J per sample"
        )
    for finding in bench.verdict:
        advice = f". Try: {finding.settings}" if finding.settings else ""
        paragraphs.append(f"{finding.name}: {finding.why}{advice}")
    forecasts = [format_forecast(forecast) for forecast in bench.forecast if forecast]
    paragraphs += [f"whole training: {forecast}" for forecast in forecasts]
    paragraphs.append(os.path.relpath(path))
    lines = [f"{bench.trial} on {measured.world_size} x {measured.device} in {measured.precision}"]
    lines += table_of_parts(measured)
    for paragraph in paragraphs:
        lines += textwrap.wrap(paragraph, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines)


def table_of_parts(measured: Measurement) -> list[str]:
    """A line for each part of a step and for the whole, in milliseconds."""
    spreads = {**measured.parts_s, "step": measured.step_s}
    shares = [*(measured.shares[part] for part in measured.parts_s), 1]
    columns = [TextColumn("ms", list(spreads), 12)]
    for figure in ("median", "min", "spread"):
        times_ms = [1000 * getattr(spread, figure) for spread in spreads.values()]
        texts = [f"{time_ms:.3f}" for time_ms in times_ms]
        columns.append(TextColumn(figure, texts, 10, on_right=True))
    title = f"   of {measured.n_steps} steps"
    columns.append(TextColumn(title, [f"{share:.0%}" for share in shares], 9, on_right=True))
    return text_table(columns, gap="")


def format_rates(measured: Measurement) -> str:
    peak = ""
    if measured.peak_share:
        peak = f" ({measured.peak_share:.0%} of the peak)"
    return (
        f"{measured.samples_per_s:,.0f} samples/s, {measured.samples_per_step} per step, "
        f"{measured.tflops:.3g} TFLOP/s{peak}"
    )


def format_memory(measured: Measurement) -> str:
    amounts = vars(measured.memory_bytes).items()
    texts = [f"{name} {amount / 1e6:,.1f}" for name, amount in amounts if amount is not None]
    return f"{measured.n_parameters:,} parameters; memory in MB: {', '.join(texts)}"
