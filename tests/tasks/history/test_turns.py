"""Two versions in turns: a change is found where it is, against drift and noise, and nothing is said of too few."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.history.turns import Turns, judge_turns
from tasks.history.verdict import Verdict


def _turns(factor: float, *, noise: float = 0.01, turns: int = 5, seed: int = 0, worse: int = 1) -> Turns:
    random = np.random.default_rng(seed)
    drift = np.linspace(1.0, 1.3, turns)  # the machine gets slower by a third over the night
    other = drift * np.exp(noise * random.standard_normal(turns))
    here = drift * factor * np.exp(noise * random.standard_normal(turns))
    return Turns(here.tolist(), other.tolist(), worse, 0.02)


@pytest.mark.parametrize(
    ("factor", "worse", "verdict"),
    [
        (1.1, 1, Verdict.REGRESSED),
        (1 / 1.1, 1, Verdict.IMPROVED),
        (1.1, -1, Verdict.IMPROVED),
        (1 / 1.1, -1, Verdict.REGRESSED),
    ],
)
def test_a_tenth_is_found_to_its_side_whatever_the_machine_drifts_by(
    factor: float, worse: int, verdict: Verdict
) -> None:
    judged = judge_turns({"a": _turns(factor, worse=worse)})["a"]
    assert judged.verdict is verdict
    assert judged.effect == pytest.approx(factor - 1, abs=0.02)
    assert judged.low is not None
    assert judged.high is not None
    assert judged.low < factor - 1 < judged.high


def test_nothing_is_found_where_nothing_changed_beyond_what_chance_allows() -> None:
    series = {str(seed): _turns(1.0, noise=0.02, seed=seed) for seed in range(400)}
    found = [
        one for one in judge_turns(series).values() if one.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    ]
    assert len(found) <= 2


def test_a_quiet_pair_passes_and_a_noisy_one_is_inconclusive() -> None:
    assert judge_turns({"a": _turns(1.0, noise=0.002)})["a"].verdict is Verdict.PASS
    assert judge_turns({"a": _turns(1.0, noise=0.2)})["a"].verdict is Verdict.INCONCLUSIVE


def test_what_is_surely_there_and_too_small_to_count_passes() -> None:
    judged = judge_turns({"a": _turns(1.01, noise=0.0005)})["a"]
    assert judged.verdict is Verdict.PASS
    assert judged.effect == pytest.approx(0.01, abs=0.002)


@pytest.mark.parametrize(
    "turns",
    [
        Turns([], [], 1, 0.0),
        Turns([1.0, 1.0], [1.0, 1.0], 1, 0.0),
        Turns([0.0, 1.0, 1.0], [1.0, 1.0, 1.0], 1, 0.0),
        Turns([math.nan, 1.0, 1.0], [1.0, 1.0, 1.0], 1, 0.0),
    ],
)
def test_too_few_turns_say_nothing(turns: Turns) -> None:
    assert judge_turns({"a": turns})["a"].verdict is Verdict.INCONCLUSIVE


def test_values_that_agree_to_the_digit_are_told_apart_by_more_than_rounding() -> None:
    same = Turns([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], 1, 0.02)
    assert judge_turns({"a": same})["a"].verdict is Verdict.PASS
    slower = Turns([1.1, 1.1, 1.1], [1.0, 1.0, 1.0], 1, 0.02)
    assert judge_turns({"a": slower})["a"].verdict is Verdict.REGRESSED
