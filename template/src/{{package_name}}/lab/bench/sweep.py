# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
"""`lab bench --sweep`: rates for several values of a setting."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import Failed, LabError
from ..project import Project
from .forecast import OutOfMemory
from .run_bench import NEAR_BEST, bench_of


def sweep(project: Project, options: Any) -> tuple[dict, str, dict]:
    """A bench of each value, up to the first that does not fit; from there back to the largest that does."""
    key, _, text = options.sweep.partition("=")
    key, ends = (
        {"batch": "data.batch_size"}.get(key, key),
        [int(end) for end in text.split("..") if end.isdecimal()],
    )
    doubles = len(ends) == 2 and 0 < ends[0] < ends[1]
    if not text or (".." in text and not doubles):
        raise LabError(
            f"--sweep={options.sweep}: write batch=8..1024, which doubles, or KEY=VALUE,VALUE"
        )
    values = (
        [ends[0] << n for n in range(64) if ends[0] << n <= ends[1]] if doubles else text.split(",")
    )
    rates: dict[Any, float] = {}

    def fits(value: Any) -> bool:
        try:
            bench = bench_of(project, options, str(value), [*options.overrides, f"{key}={value}"])
            rates[value] = bench["samples_per_s"]
        except OutOfMemory as error:
            print(error, file=sys.stderr)
        return value in rates

    refused = next((value for value in values if not fits(value)), None)
    while doubles and rates and refused and refused - max(rates) > max(8, max(rates) // 8):
        middle = (max(rates) + refused) // 2
        refused = refused if fits(middle) else middle
    if not rates:
        raise Failed(f"{key}={values[0]} does not fit into the memory")
    rates = dict(sorted(rates.items())) if doubles else rates
    knee = next(value for value, rate in rates.items() if rate >= NEAR_BEST * max(rates.values()))
    words = f"knee: {key}={knee}, the first within {1 - NEAR_BEST:.0%} of the best"
    words += f"; largest that fits: {max(rates)}{'' if refused else ' or more'}" if doubles else ""
    found = {
        "key": key,
        "samples_per_s": {str(value): rate for value, rate in rates.items()},
        "knee": knee,
    }
    curve = list(rates.items()) if doubles else list(enumerate(rates.values()))
    picture = {
        "x": key,
        "y": "samples/s",
        "curves": {"measured": curve},
        "marked": knee if doubles else None,
    }
    return found | {"largest": max(rates) if doubles else None, "refused": refused}, words, picture
