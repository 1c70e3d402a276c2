"""Intervals as the tables of Student's distribution have them, and the paired t-test."""

import pytest
from labrig.record.compare.seed_statistics import (
    half_interval,
    paired_t_test,
    student_quantile,
)


@pytest.mark.parametrize(
    ("df", "quantile"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (3, 3.18245),
        (4, 2.77645),
        (5, 2.57058),
        (9, 2.26216),
        (10, 2.22814),
        (30, 2.04227),
        (1000, 1.96234),
    ],
)
def test_the_quantiles_are_those_of_the_tables(df, quantile):
    assert student_quantile(df) == pytest.approx(quantile, rel=1e-5)


def test_the_interval_of_four_numbers():
    assert half_interval([1.0, 2.0, 3.0, 4.0]) == pytest.approx(2.05426, rel=1e-5)


def test_pairs_are_compared_by_their_differences():
    test = paired_t_test([(1.0, 2.0), (2.0, 3.5), (3.0, 3.2), (4.0, 6.0)])
    assert test.n == 4
    assert test.difference == pytest.approx(1.175)
    # t = 3.061602 with 3 degrees of freedom
    assert test.p == pytest.approx(0.0549238, rel=1e-5)
    assert test.half == pytest.approx(1.221378, rel=1e-5)


@pytest.mark.parametrize(
    "pairs",
    [[], [(1.0, 2.0), (2.0, 9.0)], [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0)], [(1.0, 1.0)] * 5],
)
def test_too_few_pairs_and_equal_differences_are_not_tested(pairs):
    assert paired_t_test(pairs) is None
