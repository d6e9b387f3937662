"""What many series tell of each: variances drawn together, spikes left out, runs made of whatever was measured."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.history.detection.baseline import Baseline, baseline_of, scatter_of
from tasks.history.detection.moderation import moderated
from tasks.history.detection.series import run_of
from tests.tasks.history.detection.nights import drawn


def made(between: list[float], length: int = 12) -> list[Baseline]:
    found = [baseline_of(drawn(n, length, sigma, within=0.0)) for n, sigma in enumerate(between)]
    return [one for one in found if one]


def errors(baselines: list[Baseline], between: list[float]) -> float:
    """Returns how far the variances are off the truth, as the root mean square of their logarithms."""
    off = [math.log(one.variance / sigma**2) for one, sigma in zip(baselines, between, strict=True)]
    return float(np.sqrt(np.mean(np.square(off))))


def test_series_that_scatter_alike_learn_from_each_other() -> None:
    between = [0.01] * 60
    alone = made(between)
    together = moderated(alone)
    assert errors(together, between) < errors(alone, between) / 2
    assert min(one.degrees for one in together) > 2 * alone[0].degrees


def test_series_of_their_own_kind_keep_their_own() -> None:
    between = [0.001 * 10 ** (n / 20) for n in range(60)]
    alone = made(between)
    together = moderated(alone)
    assert errors(together, between) <= errors(alone, between) * 1.02
    assert max(one.degrees for one in together) < 2 * alone[0].degrees


def test_few_series_are_left_alone() -> None:
    alone = made([0.01] * 5)
    assert moderated(alone) == alone


def test_the_level_is_the_mean_and_the_scatter_is_the_runs() -> None:
    found = baseline_of(drawn(5, 400, 0.01, within=0.02, repeats=5, mean=2.0))
    assert found is not None
    assert found.nights <= 90
    assert found.centre == pytest.approx(2.0, abs=0.006)
    within = 0.02**2 * math.pi / 2 / 5 * 0.92  # of a median of five
    assert found.variance == pytest.approx(0.01**2 + within, rel=0.35)
    assert found.spread == pytest.approx(within, rel=0.5)
    assert found.correlation == pytest.approx(0.0, abs=0.1)


def test_a_level_of_few_nights_scatters_as_the_levels_before_it_did() -> None:
    levels = [drawn(n, 30, 0.01, within=0.0, mean=mean) for n, mean in enumerate((0.0, 0.3, -0.2))]
    earlier = (*levels[0], *levels[1], *levels[2])
    few = drawn(9, 3, 0.01, within=0.0, mean=0.5)
    scatter = scatter_of(earlier)
    assert scatter and math.sqrt(scatter.variance) == pytest.approx(0.01, rel=0.2) and scatter.degrees > 70
    assert scatter_of(earlier[:7]) is None
    assert baseline_of(few) is None and baseline_of(few, earlier[:5]) is None
    found = baseline_of(few, earlier)
    assert found and (found.nights, found.centre) == (3, pytest.approx(0.5, abs=0.02))
    assert math.sqrt(found.variance) == pytest.approx(0.01, rel=0.2) and found.degrees > 70
    wilder = baseline_of(drawn(9, 7, 0.05, within=0.0, mean=0.5), earlier)
    assert wilder and math.sqrt(wilder.variance) > 0.02


@pytest.mark.parametrize(
    ("values", "centre"),
    [
        ([2.0], math.log(2)),
        ([2.0, math.nan, 2.0], math.log(2)),
        ([0.0, 2.0, -1.0], math.log(2)),
        ([math.inf, 2.0], math.log(2)),
        ([2.0, 2.0, 2.0], math.log(2)),
        ([], None),
        ([math.nan], None),
        ([0.0], None),
    ],
)
def test_runs_are_made_of_what_is_a_number(values: list[float], centre: float | None) -> None:
    run = run_of(values)
    assert (run.centre if run else None) == centre


def test_one_repeat_has_no_spread_and_ties_have_none_to_speak_of() -> None:
    one, ties = run_of([2.0]), run_of([2.0, 2.0, 2.0])
    assert one and one.spread is None
    assert ties and ties.spread == 0.0
    least = run_of([0.0, 5.0], least=10.0)
    assert least and least.centre == pytest.approx(math.log(10))
