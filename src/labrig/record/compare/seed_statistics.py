"""The statistics of a few seeds: confidence intervals, the paired t-test; SciPy computes them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ...machine.text_formats import format_deviation

CONFIDENCE = 0.95
OF_FOLDS = "folds train on the same samples: these intervals are too narrow, and these p too small"
ROUNDING = 1e-7  # relative, of single precision
FEWEST_PAIRS = 3  # seeds that both rows of a test have
FEWEST_TO_RANK = 3  # runs of a row whose mean may be called best


def student_quantile(df: int, confidence: float = CONFIDENCE) -> float:
    """The t between whose negative and itself `confidence` of Student's distribution lies."""
    from scipy.special import stdtrit  # of scipy.stats, which takes a second to import

    return float(stdtrit(df, (1 + confidence) / 2))


def half_interval(numbers: list[float]) -> float:
    """Half the confidence interval of the mean of at least two numbers, by Student's distribution."""
    n = len(numbers)
    return student_quantile(n - 1) * statistics.stdev(numbers) / math.sqrt(n)


@dataclass(frozen=True)
class PairedTest:
    """Student's t-test of the differences of pairs.

    Attributes:
        n: pairs.
        difference: the mean of second minus first.
        half: half the confidence interval of it.
        p: of a difference at least as large, if there were none; two-sided.
    """

    n: int
    difference: float
    half: float
    p: float


def paired_t_test(pairs: list[tuple[float, float]]) -> PairedTest | None:
    """The test of FEWEST_PAIRS pairs or more; None for fewer, and where all differ by the same."""
    differences = [second - first for first, second in pairs]
    n = len(differences)
    if n < FEWEST_PAIRS:
        return None
    deviation = statistics.stdev(differences)
    # Differences that are equal but for rounding have no deviation.
    largest = max(abs(value) for pair in pairs for value in pair)
    if not math.isfinite(deviation) or deviation <= ROUNDING * largest:
        return None
    mean = statistics.fmean(differences)
    from scipy.special import stdtr

    t = abs(mean) / (deviation / math.sqrt(n))
    return PairedTest(n, mean, half_interval(differences), p=2 * float(stdtr(n - 1, -t)))


def format_test(test: PairedTest, over: tuple[str, ...] = ()) -> str:
    difference = format_deviation(test.difference, test.half)
    return (
        f"second line - first line = {difference} ({CONFIDENCE:.0%} interval), "
        f"t-test paired by {' and '.join(['seed', *over])}, n = {test.n}: {format_p(test.p)}"
    )


def format_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
