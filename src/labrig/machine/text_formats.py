"""Numbers, durations and long texts as the commands print them. Formats that differ on purpose stand side by side."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from .terminal import printable

HOUR_S = 3600
KWH_J = 3.6e6
GB = 1e9
AGES_S = (("y", 365 * 86400), ("d", 86400), ("h", HOUR_S), ("min", 60))


def format_duration(seconds: float) -> str:
    """A duration in a sentence: `0:05:09`, from a day on `1 day, 2:03:04`."""
    return str(timedelta(seconds=round(seconds)))


def format_clock(seconds: float) -> str:
    """A duration in a narrow column, whose hours go on after 24: `0:05:09`, `26:03:04`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def format_hms(time_s: float) -> str:
    """A time limit as schedulers write it: `02:00:00`. Part of a second is left out."""
    minutes, seconds = divmod(int(time_s), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"


def format_age(seconds: float) -> str:
    """How long ago something was, in whole units of the largest that fits: `3d`."""
    for unit, unit_s in AGES_S:
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f}{unit}"
    return "now"


def format_value(value: Any) -> str:
    """A metric with four digits; "-" when there is none."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else printable(value)


def format_mean(numbers: list[float]) -> str:
    """Mean and sample deviation: `0.9512 ± 0.0031`. One number has no deviation."""
    import statistics  # slow, and lists do not need it

    mean = statistics.fmean(numbers)
    if len(numbers) == 1:
        return f"{mean:.4g}"
    return format_deviation(mean, statistics.stdev(numbers))


FINEST = 1e-6  # of a mean: metrics are of single precision, which has seven digits


def format_deviation(mean: float, deviation: float) -> str:
    """The deviation with two significant digits, the mean with as many decimals."""
    if deviation == 0:
        return f"{mean:.4g} ± 0"
    n_decimals = max(0, 1 - math.floor(math.log10(deviation)))
    if deviation < abs(mean) * FINEST:
        return f"{mean:.7g} ± {deviation:.0e}"
    shown = f"{mean:.{n_decimals}f}"
    if float(shown) == 0:
        shown = shown.removeprefix("-")
    return f"{shown} ± {deviation:.{n_decimals}f}"


def ellipsis(text: str, width: int) -> str:
    """`text`, cut to `width` characters with "…" at its end when it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"
