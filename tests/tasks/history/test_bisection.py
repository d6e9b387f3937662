"""The first slow build is found by few runs, whichever it is; what cannot be told is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.history.bisection import (
    MOST,
    CannotRun,
    Found,
    Measure,
    Next,
    NotReproduced,
    next_step,
)

SCATTER = 0.01


def play(
    builds: int, first_bad: int, *, effect: float = 0.1, seed: int = 0, broken: frozenset[int] = frozenset()
) -> tuple[Next, int]:
    """Runs what is asked for until there is an answer; returns it, and how many runs that took."""
    generator = np.random.default_rng(seed)
    runs: dict[int, list[float]] = {}
    failed: frozenset[int] = frozenset()
    for count in range(200):
        told = next_step(builds, runs, failed, SCATTER)
        if not isinstance(told, Measure):
            return told, count
        if told.build in broken:
            failed |= {told.build}
            continue
        level = effect if told.build >= first_bad else 0.0
        runs.setdefault(told.build, []).append(level + generator.normal(0, SCATTER))
        assert len(runs[told.build]) <= MOST
    raise AssertionError("no answer")


@pytest.mark.parametrize("first_bad", range(1, 40))
def test_each_build_of_forty_is_found(first_bad: int) -> None:
    found, count = play(40, first_bad, seed=first_bad)
    assert isinstance(found, Found)
    assert (found.last_good, found.first_bad) == (first_bad - 1, first_bad)
    assert found.effect == pytest.approx(0.1, abs=0.03)
    assert count <= 4 + 6 + 2 + 4


def test_what_got_faster_is_found_too() -> None:
    found, _ = play(9, 4, effect=-0.08)
    assert isinstance(found, Found) and (found.last_good, found.first_bad, found.effect < 0) == (3, 4, True)


def test_two_builds_are_the_answer_themselves_once_they_differ() -> None:
    found, count = play(2, 1)
    assert isinstance(found, Found) and (found.last_good, found.first_bad, count) == (0, 1, 4)


def test_ends_that_do_not_differ_here_are_told() -> None:
    found, count = play(20, 5, effect=0.0)
    assert isinstance(found, NotReproduced) and count == 2 * MOST
    assert abs(found.effect) < found.reach < 0.05


@pytest.mark.parametrize("end", [0, 7])
def test_an_end_that_cannot_run_ends_it(end: int) -> None:
    assert play(8, 3, broken=frozenset({end}))[0] == CannotRun(end)


def test_builds_that_cannot_run_widen_the_answer() -> None:
    found, _ = play(16, 8, broken=frozenset({7, 8, 9}))
    assert isinstance(found, Found) and (found.last_good, found.first_bad) == (6, 10)


def test_ends_are_measured_in_turns() -> None:
    order = []
    runs: dict[int, list[float]] = {}
    for _ in range(4):
        told = next_step(10, runs, frozenset(), SCATTER)
        assert isinstance(told, Measure)
        order.append(told.build)
        runs.setdefault(told.build, []).append(0.1 * told.build)
    assert order == [0, 9, 0, 9]


def test_small_effects_are_right_in_all_but_few() -> None:
    wrong = 0
    for seed in range(100):
        first_bad = 1 + seed % 15
        found, _ = play(16, first_bad, effect=0.05, seed=seed)
        wrong += not (isinstance(found, Found) and found.first_bad == first_bad)
    assert wrong <= 8, "each of four decisions is wrong in one of 100 at most"


def test_what_never_gets_sure_is_answered_and_told() -> None:
    runs = {0: [0.0] * 3, 2: [0.05] * 3, 1: [0.025 + 1e-4] * MOST}
    found = next_step(3, runs, frozenset(), SCATTER)
    assert isinstance(found, Found) and found.unsure == [1] and math.isclose(found.effect, 0.05)
