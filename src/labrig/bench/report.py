"""What `lab bench` shows: what limits a step and what may help, as text, JSON or a picture."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..machine.own_output import PICTURE_FACTS
from ..machine.text_formats import and_more
from ..machine.text_table import TextColumn, text_table
from .forecast import format_forecast
from .result import BenchFinding, BenchResult, Measurement

WIDTH = 80
Curve = Sequence[tuple[float, float]]


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


# Shares of a step, or of what is named; above them the finding holds
DATA_BOUND = 0.2
OVERHEAD_BOUND = 0.25
LAUNCH_BOUND = 0.8  # of the time without loading
LAUNCH_BOUND_PEAK = 0.3  # of the GPU's peak; above it the GPU is busy all the same
FULL_MEMORY = 0.9
UNSTEADY = 0.3  # distance of the quartiles over the median


def list_findings(measured: Measurement, config: DictConfig) -> list[BenchFinding]:
    """What limits the step, followed by whatever else deserves a look."""
    findings = [find_limit(measured, config), find_overhead(measured, config)]
    return [*findings, *find_warnings(measured, config)]


def find_limit(measured: Measurement, config: DictConfig) -> BenchFinding:
    """The one thing that limits the step."""
    shares = measured.shares
    if shares["load"] >= DATA_BOUND:
        why = f"{shares['load']:.0%} of a step waits for data (disks: lab data bench)"
        return BenchFinding(
            "data-bound", why, with_values(config, "data.num_workers", "data.stage")
        )
    if waits_for_python(measured):
        why = "the GPU waits for Python: for many small kernels, or at an .item()"
        return BenchFinding(
            "launch-bound", why, with_values(config, "data.batch_size", "speed.compile")
        )
    if shares["other"] >= OVERHEAD_BOUND:
        why = f"{shares['other']:.0%} of a step is neither data nor model"
        keys = ("data.batch_size", "log.every_n_steps", "callbacks")
        return BenchFinding("overhead-bound", why, with_values(config, *keys))
    keys = ("trainer.devices", "speed.compile")
    if on_gpu(measured):
        keys += ("trainer.precision", "speed.channels_last")
    else:
        keys += ("trainer.threads",)
    return BenchFinding(
        "compute-bound", "the step is spent in the model", with_values(config, *keys)
    )


def find_overhead(measured: Measurement, config: DictConfig) -> BenchFinding:
    """What a step costs above the network, by what it goes to, and the one setting that changes the
    largest part."""
    copies = measured.copy_share
    python = measured.shares["other"]
    share_of = {
        "waits for data": measured.shares["load"] - copies,
        "copies to the device": copies,
        "Python of the loop and the callbacks": python,
    }
    setting_of = {
        "waits for data": "data.num_workers",
        "copies to the device": "data.copy_ahead" if on_gpu(measured) else "data.batch_size",
        "Python of the loop and the callbacks": "data.batch_size",
    }
    if OmegaConf.select(config, "speed.lean_loop") is False:
        setting_of["Python of the loop and the callbacks"] = "speed.lean_loop"
    step_ms = 1e3 * measured.step_s.median
    parts = ", ".join(f"{name} {share * step_ms:.2f} ms" for name, share in share_of.items())
    total_ms = sum(share_of.values()) * step_ms
    largest = max(share_of, key=lambda name: share_of[name])
    loop = f"; steps run in {measured.loop}" if measured.loop else ""
    why = f"{total_ms:.2f} ms of {step_ms:.2f} ms ({parts}){loop}"
    return BenchFinding("above the network", why, with_values(config, setting_of[largest]))


def find_warnings(measured: Measurement, config: DictConfig) -> list[BenchFinding]:
    warnings = []
    memory = measured.memory_bytes
    if on_gpu(measured) and memory.peak and memory.device:
        fullness = memory.peak / memory.device
        if fullness > FULL_MEMORY:
            why = f"{fullness:.0%} of the device's memory is used"
            keys = (
                "data.batch_size",
                "trainer.accumulate_grad_batches",
                "speed.checkpoint_activations",
                "speed.fsdp",
            )
            warnings.append(BenchFinding("memory nearly full", why, with_values(config, *keys)))
        if "32" in measured.precision:
            why = "tensor cores are fastest in half precision"
            settings = with_values(config, "trainer.precision")
            warnings.append(BenchFinding("precision not used", why, settings))
        if measured.uneven:
            why = f"tensor cores idle in {and_more(measured.uneven, 3)}"
            settings = with_values(config, "model")
            warnings.append(BenchFinding("dimensions not multiples of 8", why, settings))
    spread = measured.step_s.spread / measured.step_s.median
    if spread > UNSTEADY:
        why = f"the middle half of the steps spreads over {spread:.0%}; is the machine quiet?"
        settings = ""
        if not on_gpu(measured) and measured.threads > 1:
            settings = f"trainer.threads=1 (now {measured.threads})"
        warnings.append(BenchFinding("unsteady", why, settings))
    return warnings


def on_gpu(measured: Measurement) -> bool:
    return measured.device != "cpu"


def waits_for_python(measured: Measurement) -> bool:
    """Whether a GPU takes hardly longer for a step than Python takes to start its kernels."""
    if not on_gpu(measured):
        return False
    computing_s = (1 - measured.shares["load"]) * measured.step_s.median
    peak_share = measured.peak_share or 0.0
    return measured.launch_s > LAUNCH_BOUND * computing_s and peak_share < LAUNCH_BOUND_PEAK


def with_values(config: DictConfig, *keys: str) -> str:
    """The settings, each with its value now; a section only by name."""
    texts = []
    for key in keys:
        value = OmegaConf.select(config, key, default="")
        is_section = isinstance(value, DictConfig)
        texts.append(key if is_section else f"{key} (now {value})")
    return ", ".join(texts)


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
