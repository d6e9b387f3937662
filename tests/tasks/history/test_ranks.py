"""Two samples are apart by the median of all pairs, within what the rank test of the same pairs does not exclude."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from tasks.history.ranks import shift


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_excludes_nothing_exactly_where_the_rank_test_does(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(10):
        n, m = random.integers(4, 9, size=2)
        here, there = random.normal(size=n), random.normal(size=m) + random.choice([0.0, 1.0, 2.0])
        found = shift(here.tolist(), there.tolist())
        assert found and found.low <= found.centre <= found.high
        significant = mannwhitneyu(here, there, method="exact").pvalue <= 0.05
        assert significant == (found.low > 0 or found.high < 0)


@pytest.mark.parametrize(
    ("here", "there", "tells"),
    [(0, 9, False), (1, 60, False), (2, 7, False), (2, 8, True), (3, 4, False), (3, 5, True), (4, 4, True)],
)
def test_few_values_tell_nothing(here: int, there: int, tells: bool) -> None:
    assert (shift([1.0 + n for n in range(here)], [0.1 * n for n in range(there)]) is not None) is tells


def test_many_values_are_told_by_the_normal_distribution_nearly_alike() -> None:
    random = np.random.default_rng(1)
    here, there = random.normal(size=60), random.normal(size=60)
    exact, more = (
        shift(here[:40].tolist(), there[:40].tolist()),
        shift(here[:40].tolist(), there[:41].tolist()),
    )
    assert exact and more
    assert (more.low, more.high) == pytest.approx((exact.low, exact.high), abs=0.06)


def test_equal_values_are_apart_by_nothing() -> None:
    assert shift([2.0] * 5, [2.0] * 5) == (0.0, 0.0, 0.0)
