"""Effects: literal ratios, and intervals that hold the truth at least as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.history.effect import measure_effect


def test_ten_percent_more_is_ten_percent() -> None:
    effect = measure_effect([1.1, 1.1, 1.1], [[1.0, 1.0, 1.0], [1.0, 1.0]])
    assert effect is not None
    assert effect.effect == pytest.approx(0.1)
    assert (effect.low, effect.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert effect.noise_floor is None
    assert (effect.current_median, effect.baseline_median) == (pytest.approx(1.1), pytest.approx(1.0))
    assert (effect.baseline_runs, effect.basis) == (2, "run to run")


def test_twice_and_half_are_alike() -> None:
    more, less = measure_effect([2.0, 2.2], [[1.0, 1.1]]), measure_effect([1.0, 1.1], [[2.0, 2.2]])
    assert more is not None and less is not None
    assert more.low is not None and less.high is not None
    assert (1 + more.effect) * (1 + less.effect) == pytest.approx(1)
    assert (1 + more.low) * (1 + less.high) == pytest.approx(1)


def test_one_earlier_run_says_nothing_of_how_runs_differ() -> None:
    effect = measure_effect([1.0, 1.2, 1.1], [[1.0, 1.1, 1.2]])
    assert effect is not None
    assert (effect.basis, effect.noise_floor) == ("within one run", None)
    assert effect.low is not None and effect.high is not None
    assert effect.low < 0 < effect.high


def test_one_repeat_has_an_effect_but_no_interval() -> None:
    effect = measure_effect([1.2], [[1.0], [1.0]])
    assert effect is not None
    assert (effect.effect, effect.low, effect.high) == (pytest.approx(0.2), None, None)


def test_the_change_follows_from_the_medians_that_are_shown() -> None:
    effect = measure_effect([1.5, 1.5], [[1.0, 1.0], [2.0, 2.0]])
    assert effect is not None
    assert (effect.current_median, effect.baseline_median) == (1.5, 1.5)
    assert effect.effect == pytest.approx(0.0)


def test_what_is_below_the_least_is_compared_as_it_and_told_as_it_is() -> None:
    effect = measure_effect([0.0, 0.2], [[4.0, 4.0]], least=1.0)
    assert effect is not None
    assert (effect.current_median, effect.baseline_median, effect.least) == (0.1, 4.0, 1.0)
    assert effect.effect == pytest.approx(-0.75)
    untouched = measure_effect([2.0, 2.0], [[4.0, 4.0]], least=1.0)
    assert untouched is not None and untouched.least is None


@pytest.mark.parametrize(("current", "baseline"), [([], [[1.0]]), ([0.0, 1.0], [[1.0]]), ([1.0], [[-1.0]])])
def test_no_ratio_without_positive_values(current: list[float], baseline: list[list[float]]) -> None:
    assert measure_effect(current, baseline) is None


@pytest.mark.parametrize(("repeats", "runs"), [(3, 2), (5, 3), (5, 1), (20, 8)])
def test_unchanged_code_is_inside_the_interval(repeats: int, runs: int) -> None:
    random = np.random.default_rng(repeats * 100 + runs)
    inside = 0
    for _ in range(150):
        draws = np.exp(random.normal(0, 0.1, size=(runs + 1, repeats))).tolist()
        effect = measure_effect(draws[0], draws[1:])
        assert effect is not None and effect.low is not None and effect.high is not None
        assert effect.low <= effect.effect <= effect.high
        inside += effect.low <= 0 <= effect.high
    assert inside / 150 >= 0.93


def test_the_noise_floor_is_the_furthest_that_an_unchanged_run_reached() -> None:
    steady = [[level, level] for level in (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.1)]
    effect = measure_effect([1.0, 1.0], steady)
    assert effect is not None and effect.noise_floor is not None
    assert effect.noise_floor >= 0.1 - 1e-9
    assert math.log1p(effect.noise_floor) < 0.15


def test_unchanged_code_stays_within_the_floor_eight_of_nine_times() -> None:
    random = np.random.default_rng(8)
    within = 0
    for _ in range(150):
        levels = random.normal(0, 0.05, size=(9, 1))
        draws = np.exp(levels + random.normal(0, 0.05, size=(9, 6))).tolist()
        effect = measure_effect(draws[8], draws[:8])
        assert effect is not None and effect.low is not None and effect.high is not None
        assert effect.noise_floor is not None
        within += effect.high <= effect.noise_floor and effect.low >= 1 / (1 + effect.noise_floor) - 1
    assert within / 150 == pytest.approx(8 / 9, abs=0.06)
