"""Runs every form of every program, compares their results, and prints how much faster each is.

python compare.py            a table; a form whose package or device is missing is named
python compare.py --json     the same, for scripts
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import blas
import cases
import numpy as np

LEAST_S = 0.3  # time for which a form is repeated
LEAST_CALLS = 5
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Result:
    """How a form of a program did."""

    program: str
    form: str
    seconds: float | None = None  # of one call, the best of several
    faster: float | None = None  # than the plain version
    difference: float | None = None  # from the plain result, relative
    skipped: str | None = None  # why it did not run


def compare() -> list[Result]:
    """All forms, those of a program with the plain one first."""
    results = []
    for program in cases.programs():
        plain, *others = program.forms
        expected = flatten(plain.load()(*plain.convert(program.arguments)))
        plain_s = seconds_of(plain.load(), plain.convert(program.arguments))
        results.append(Result(program.name, plain.name, plain_s, 1.0, 0.0))
        for form in others:
            why_not = form.why_not()
            if why_not:
                results.append(Result(program.name, form.name, skipped=why_not))
                continue
            function = form.load()
            arguments = form.convert(program.arguments)
            difference = relative_difference(flatten(function(*arguments)), expected)
            seconds = seconds_of(function, arguments)
            results.append(Result(program.name, form.name, seconds, plain_s / seconds, difference))
    return results


def seconds_of(function: Callable, arguments: tuple) -> float:
    """The best time of a call. The call before has compiled what is compiled."""
    times_s: list[float] = []
    end_s = time.perf_counter() + LEAST_S
    while len(times_s) < LEAST_CALLS or time.perf_counter() < end_s:
        began_s = time.perf_counter()
        wait_for(function(*arguments))
        times_s.append(time.perf_counter() - began_s)
    return min(times_s)


def wait_for(result: Any) -> None:
    """Waits for the GPU: it works on while Python goes ahead, and a time without this is wrong."""
    first = result[0] if isinstance(result, tuple) else result
    if type(first).__module__.startswith("cupy"):
        import cupy

        cupy.cuda.Device().synchronize()
    elif getattr(first, "is_cuda", False):
        import torch

        torch.cuda.synchronize()


def flatten(result: Any) -> np.ndarray:
    """All numbers of a result, on the CPU."""
    parts = result if isinstance(result, tuple) else (result,)
    return np.concatenate([np.ravel(on_cpu(part)) for part in parts])


def on_cpu(part: Any) -> np.ndarray:
    if hasattr(part, "get") and not isinstance(part, np.ndarray):  # CuPy
        part = part.get()
    if hasattr(part, "cpu"):  # PyTorch
        part = part.detach().cpu()
    return np.asarray(part, dtype=np.float64)


def relative_difference(values: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(values - expected).max() / np.abs(expected).max())


def table(results: list[Result]) -> list[str]:
    lines = [f"{'program':<12} {'form':<22} {'ms':>10} {'times faster':>13}  same to"]
    for result in results:
        start = f"{result.program:<12} {result.form:<22}"
        if result.skipped:
            lines.append(f"{start} skipped: {result.skipped}")
            continue
        speed = f"{result.seconds * 1000:>10.3f} {result.faster:>13,.1f}"
        lines.append(f"{start} {speed}  {result.difference:.0e}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="How much faster each form of a program is.")
    parser.add_argument("--json", action="store_true", help="print a list of results")
    options = parser.parse_args()
    results = compare()
    if options.json:
        print(json.dumps([asdict(result) for result in results]))
    else:
        print("\n".join([*table(results), *blas.describe(), f"{blas.gflops():.0f} GFLOP/s"]))
    wrong = [result for result in results if (result.difference or 0) > TOLERANCE]
    for result in wrong:
        print(f"{result.form} differs from the plain {result.program}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
