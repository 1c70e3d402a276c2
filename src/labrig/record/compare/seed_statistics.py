"""The statistics of a few seeds: Student's distribution, confidence intervals, the paired t-test.

By hand, in plain Python: a table starts without NumPy.
"""

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


def inside_of_student(t: float, df: int) -> float:
    """The probability that a value of Student's distribution lies between -t and t.

    The finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.

    Args:
        t: at least 0.
        df: degrees of freedom, at least 1.
    """
    angle = math.atan(t / math.sqrt(df))
    cosine_squared = math.cos(angle) ** 2
    is_odd = df % 2 == 1
    term = math.cos(angle) if is_odd else 1.0
    total = term if df > 1 else 0.0
    for n in range(3 if is_odd else 2, df - 1, 2):
        term *= cosine_squared * (n - 1) / n
        total += term
    if is_odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def student_quantile(df: int, confidence: float = CONFIDENCE) -> float:
    """The t between whose negative and itself `confidence` of Student's distribution lies."""
    low, high = 0.0, 1.0
    while inside_of_student(high, df) < confidence:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if inside_of_student(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return high


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
    t = abs(mean) / (deviation / math.sqrt(n))
    p = max(0.0, 1 - inside_of_student(t, n - 1))
    return PairedTest(n, mean, half_interval(differences), p)


def format_test(test: PairedTest, over: tuple[str, ...] = ()) -> str:
    p = "p < 0.001" if test.p < 0.001 else f"p = {test.p:.3f}"
    difference = format_deviation(test.difference, test.half)
    return (
        f"second line - first line = {difference} ({CONFIDENCE:.0%} interval), "
        f"t-test paired by {' and '.join(['seed', *over])}, n = {test.n}: {p}"
    )
