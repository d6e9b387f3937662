"""Intervals have the confidence they claim: by the binomial distribution, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.history.intervals import Interval, median_interval, median_variance


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (2, Interval(1, 2, 0.5)),
        (3, Interval(1, 3, 0.75)),
        (5, Interval(1, 5, 0.9375)),
        (6, Interval(1, 6, 0.96875)),
        (8, Interval(1, 8, 1 - 2 / 256)),
        (9, Interval(2, 8, 1 - 2 * 10 / 512)),
        (20, Interval(6, 15, 1 - 2 * 21700 / 2**20)),
    ],
)
def test_order_statistics_by_the_book(n: int, expected: Interval) -> None:
    interval = median_interval(list(range(n, 0, -1)))
    assert interval is not None
    assert (interval.low, interval.high) == (expected.low, expected.high)
    assert interval.confidence == pytest.approx(expected.confidence)


def test_one_value_has_no_interval() -> None:
    assert median_interval([1.0]) is None


@pytest.mark.parametrize("n", [3, 7, 20])
def test_the_true_median_is_inside_as_often_as_claimed(n: int) -> None:
    random = np.random.default_rng(1)
    draws = random.exponential(size=(2000, n))
    found = [median_interval(row) for row in draws]
    inside = [interval is not None and interval.low <= np.log(2) <= interval.high for interval in found]
    assert found[0] is not None
    assert np.mean(inside) == pytest.approx(found[0].confidence, abs=0.025)


@pytest.mark.parametrize("n", [2, 3, 5, 15, 50])
def test_variance_of_the_median_errs_on_the_wide_side(n: int) -> None:
    random = np.random.default_rng(n)
    draws = random.normal(size=(4000, n))
    truth = np.var(np.median(draws, axis=1))
    ratio = np.mean([median_variance(row) for row in draws[:1000]]) / truth
    assert 1.0 < ratio < 2.2


def test_equal_values_have_no_variance() -> None:
    assert median_variance([3.0, 3.0, 3.0]) == pytest.approx(0, abs=1e-12)
