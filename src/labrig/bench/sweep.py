"""`lab bench --sweep`: rates for several values of a setting."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from ..errors import Failed, LabError
from .report import BenchReport, Picture
from .run_bench import BenchRunner, OutOfMemory

NEAR_BEST = 0.9  # of the best rate
SHORT_NAMES = {"batch": "data.batch_size"}

Value = Any  # a whole number that doubles, or a word as it was typed


@dataclass(frozen=True)
class Values:
    """The values of one setting, each `double` the one before or written by the user."""

    key: str
    values: list[Value]
    double: bool


class Rates:
    """samples/s of the values that were measured and fit into the memory."""

    def __init__(self, runner: BenchRunner, overrides: list[str], key: str) -> None:
        self.runner = runner
        self.overrides = overrides
        self.key = key
        self.rates: dict[Value, float] = {}

    def fits(self, value: Value) -> bool:
        """Measures one value; False when it does not fit."""
        overrides = [*self.overrides, f"{self.key}={value}"]
        try:
            bench = self.runner.run(str(value), overrides)
        except OutOfMemory as error:
            print(error, file=sys.stderr)
            return False
        self.rates[value] = bench.measured.samples_per_s
        return True


def sweep(runner: BenchRunner, overrides: list[str], text: str) -> BenchReport:
    """A bench of each value up to the first that does not fit.

    Where the values double, it then searches the largest that fits between the last two.

    Args:
        text: KEY=A..B, which doubles from A to B, or KEY=VALUE,VALUE.
    """
    wanted = parse_values(text)
    measured = Rates(runner, overrides, wanted.key)
    refused = first_refused(wanted.values, measured)
    if not measured.rates:
        raise Failed(
            f"{wanted.key}={wanted.values[0]} does not fit into the memory. "
            "Begin with a smaller value"
        )
    if not wanted.double:
        return report_rates(wanted, measured.rates, None, refused)
    if refused is not None:
        refused = narrow(measured, refused)
    rates = dict(sorted(measured.rates.items()))
    return report_rates(wanted, rates, max(rates), refused)


def parse_values(text: str) -> Values:
    """The values that KEY=A..B or KEY=VALUE,VALUE means."""
    key, _, values = text.partition("=")
    key = SHORT_NAMES.get(key, key)
    if values and ".." not in values:
        return Values(key, values.split(","), double=False)
    least, _, greatest = values.partition("..")
    if not (least.isdecimal() and greatest.isdecimal() and 0 < int(least) < int(greatest)):
        raise LabError(f"--sweep={text}: write batch=8..1024, which doubles, or KEY=VALUE,VALUE")
    doubled = [int(least)]
    while 2 * doubled[-1] <= int(greatest):
        doubled.append(2 * doubled[-1])
    return Values(key, doubled, double=True)


def first_refused(values: list[Value], measured: Rates) -> Value | None:
    """Measures the values in order up to the first that does not fit, and returns that one."""
    for value in values:
        if not measured.fits(value):
            return value
    return None


def narrow(measured: Rates, refused: int) -> int:
    """Searches the largest value that fits by halving the gap, until it is small.

    Returns: the least value that did not fit.
    """
    while refused - max(measured.rates) > max(8, max(measured.rates) // 8):
        middle = (max(measured.rates) + refused) // 2
        if not measured.fits(middle):
            refused = middle
    return refused


def knee(rates: dict[Value, float]) -> Value:
    """The first value whose rate is near the best."""
    enough = NEAR_BEST * max(rates.values())
    return next(value for value, rate in rates.items() if rate >= enough)


def report_rates(
    wanted: Values, rates: dict[Value, float], largest: Value | None, refused: Value | None
) -> BenchReport:
    best = knee(rates)
    text = f"knee: {wanted.key}={best}, the first within {1 - NEAR_BEST:.0%} of the best"
    curve = list(enumerate(rates.values()))
    marked = None
    if wanted.double:
        or_more = "" if refused else " or more"
        text += f"; largest that fits: {largest}{or_more}"
        curve = list(rates.items())
        marked = best
    content = {
        "key": wanted.key,
        "samples_per_s": {str(value): rate for value, rate in rates.items()},
        "knee": best,
        "largest": largest,
        "refused": refused,
    }
    return BenchReport(content, text, Picture(wanted.key, "samples/s", {"measured": curve}, marked))
