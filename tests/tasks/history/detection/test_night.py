"""One night judged: what is made again, what counts as a change, and what is only a spike or the whole machine."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tasks.history.detection.finding import Change, Finding
from tasks.history.detection.night import decide, suspects
from tasks.history.detection.series import Night, Run, Series
from tests.tasks.history.detection.nights import QUIET, appended, night, nights, quiet_series, with_nights


def found(series: Series) -> Finding:
    return decide({"here": {"one": series}})["here"].findings["one"]


@pytest.mark.parametrize(
    ("percent", "again"), [(0.5, False), (-0.9, False), (3.0, True), (-4.0, True), (400.0, True)]
)
def test_a_run_that_stands_out_is_made_again(percent: float, again: bool) -> None:
    assert suspects({"here": {"one": with_nights(night("now", percent))}}) == (["one"] if again else [])


@pytest.mark.parametrize(
    ("last", "change"),
    [
        ((night("now", 5.0, 4.8),), Change.UP),
        ((night("now", -5.0, -4.8),), Change.DOWN),
        ((night("now", 5.0),), Change.NONE),  # one run is no proof
        ((night("now", 50.0),), Change.NONE),
        ((night("now", 50.0, 0.1),), Change.NONE),  # a spike
        ((night("now", 50.0, 8.0),), Change.NONE),  # two spikes
        ((night("now", 0.4, 0.2),), Change.NONE),
        ((night("a", 2.4), night("now", 2.6, 2.2)), Change.UP),  # small, and for two nights
        ((night("a", 40.0, 0.3), night("now", 0.8, 0.5)), Change.NONE),  # a spike the night before
        (nights(0.9, 1.2, 1.1, 1.0, 1.3, 1.2, 1.1), Change.NONE),
        (
            (*nights(1.7, 1.6, 1.8, 1.6, 1.7, 1.7, 1.6), night("now", 1.8, 1.7)),
            Change.UP,
        ),  # tiny, for eight nights
    ],
)
def test_changes_are_what_several_runs_agree_on(last: tuple[Night, ...], change: Change) -> None:
    assert found(with_nights(*last)).change is change


def test_the_effect_is_that_of_the_window_that_tells_most() -> None:
    finding = found(with_nights(night("now", 5.0, 4.8)))
    assert finding.evidence and finding.baseline
    assert finding.evidence.window == 1
    assert math.expm1(finding.evidence.effect) == pytest.approx(0.049, abs=0.002)
    assert math.sqrt(finding.baseline.variance) == pytest.approx(0.0073, abs=0.001)


def test_too_short_a_history_says_nothing() -> None:
    series = Series((*QUIET[:7], night("now", 30.0, 30.0)))
    assert found(series) == Finding(Change.NONE, None, None)
    assert suspects({"here": {"one": series}}) == []
    assert found(Series((*QUIET[:8], night("now", 30.0, 30.0)))).change is Change.UP


def test_a_spike_in_the_baseline_neither_moves_nor_widens_it() -> None:
    spiked = Series((*QUIET[:20], night("spike", 60.0), *QUIET[20:], night("now", 5.0, 4.8)))
    assert found(spiked).change is Change.UP


def test_a_rerun_speaks_for_its_night_in_the_baseline() -> None:
    noisy = tuple(Night(one.name, (Run(one.runs[0].centre + 0.2), *one.runs)) for one in QUIET)
    assert found(Series((*noisy, night("now", 5.0, 4.8)))).change is Change.UP


def test_a_series_that_never_moved_is_not_off_by_rounding() -> None:
    still = nights(*[0.0] * 20)
    assert found(Series((*still, night("now", 0.02, 0.02)))).change is Change.NONE
    assert found(Series((*still, night("now", 1.0, 1.0)))).change is Change.UP


def test_a_night_whose_repeats_scatter_far_more_proves_less() -> None:
    wild = Night("now", (Run(0.03, 0.02**2), Run(0.03, 0.02**2)))
    calm = Night("now", (Run(0.03, 0.0), Run(0.03, 0.0)))
    assert found(with_nights(calm)).change is Change.UP
    assert found(with_nights(wild)).change is Change.NONE


def test_nights_that_follow_each_other_up_and_down_prove_less() -> None:
    wave = nights(*(1.5 * math.sin(n / 3) for n in range(60)))
    high = nights(1.8, 1.9, 2.0, 1.9, begin=60)
    assert found(Series((*wave, *high, night("now", 1.8, 1.9)))).change is Change.NONE


def test_what_a_whole_machine_shows_is_told_once() -> None:
    generator = np.random.default_rng(3)
    many = quiet_series(20, 40, 0.005)
    slower = {
        name: appended(one, "now", [Run(0.08 + generator.normal(0, 0.005)) for _ in range(2)])
        for name, one in many.items()
    }
    shown = decide({"here": slower})["here"]
    assert shown.together.size == pytest.approx(0.08, abs=0.01) and shown.together.confirmed
    assert {finding.change for finding in shown.findings.values()} == {Change.NONE}


def test_a_series_off_beyond_what_the_machine_shows_is_still_found() -> None:
    generator = np.random.default_rng(3)
    many = quiet_series(20, 40, 0.005)
    slower = {
        name: appended(
            one, "now", [Run((0.20 if name == "7" else 0.08) + generator.normal(0, 0.005)) for _ in range(2)]
        )
        for name, one in many.items()
    }
    changes = {name: finding.change for name, finding in decide({"here": slower})["here"].findings.items()}
    assert [name for name, change in changes.items() if change is Change.UP] == ["7"]


def test_series_that_differ_by_themselves_are_no_shift_of_the_machine() -> None:
    many = quiet_series(20, 40, 0.005)
    some = {
        name: appended(one, "now", [Run(0.06 if int(name) < 6 else 0.0)] * 2) for name, one in many.items()
    }
    shown = decide({"here": some})["here"]
    assert shown.together.shift is None
    assert sum(finding.change is Change.UP for finding in shown.findings.values()) == 6


def test_false_discoveries_are_held_over_the_night() -> None:
    """The same evidence counts among few series, and not among many."""
    one = with_nights(night("now", 3.0, 2.9))
    few = found(one)
    assert few.change is Change.UP and few.evidence
    others = quiet_series(200, 33, 0.0075)
    assert decide({"here": {**others, "one": one}})["here"].findings["one"].change is Change.NONE


def test_machines_have_shifts_of_their_own_and_share_the_chance_of_false_alarms() -> None:
    generator = np.random.default_rng(3)
    quiet = {f"a{name}": one for name, one in quiet_series(20, 40, 0.005).items()}
    slower = {
        f"b{name}": appended(one, "now", [Run(0.08 + generator.normal(0, 0.005)) for _ in range(2)])
        for name, one in quiet_series(20, 40, 0.005, seed=1).items()
    }
    shown = decide({"a": quiet, "b": slower})
    assert [name for name, one in shown.items() if one.together.shift] == ["b"]
    found = [finding.change for one in shown.values() for finding in one.findings.values()]
    assert set(found) == {Change.NONE}
    one = with_nights(night("now", 3.0, 2.9))
    others = quiet_series(100, 33, 0.0075)
    crowd = {f"a{n}": others[str(n % 100)] for n in range(2000)}
    assert decide({"a": crowd, "b": {"one": one}})["b"].findings["one"].change is Change.NONE


@pytest.mark.parametrize(("least", "change"), [(0.02, Change.UP), (0.06, Change.NONE)])
def test_a_change_that_is_too_small_to_matter_is_none(least: float, change: Change) -> None:
    series = with_nights(night("now", 5.0, 4.8))
    assert found(Series(series.nights, least=least)).change is change
    better = with_nights(night("now", -5.0, -4.8))
    assert found(Series(better.nights, least=least)).change is {Change.UP: Change.DOWN}.get(change, change)
