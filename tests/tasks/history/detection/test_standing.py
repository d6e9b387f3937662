"""Series from night to night: one alert until it recovers or is accepted, and no baseline that one good night moves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tasks.history.detection.finding import Change
from tasks.history.detection.night import decide
from tasks.history.detection.series import Night
from tasks.history.detection.standing import SETTLED_NIGHTS, Alert, Standing, accepted, after, series_of
from tests.tasks.history.detection.nights import QUIET, night

BEGIN = Standing()


def walk(nights: Sequence[Night], standing: Standing = BEGIN) -> tuple[Standing, list[Change]]:
    """Lets nights follow the quiet ones; returns where the series stands after them, and what each showed."""
    told, changes = list(QUIET), []
    for one in nights:
        told.append(one)
        series = series_of(told, standing)
        finding = decide({"here": {"one": series}})["here"].findings["one"]
        standing = after(standing, series, finding, worse=Change.UP)
        changes.append(finding.change)
    return standing, changes


SLOW = (night("s0", 6.0, 5.5), night("s1", 5.0), night("s2", 6.2), night("s3", 5.7))


def test_an_alert_stays_one_and_stays_open_while_it_is_slow() -> None:
    standing, _ = walk(SLOW)
    assert standing.alert and standing.alert.began == "s0"
    assert math.expm1(standing.alert.effect) == pytest.approx(0.0575, abs=0.003)


def test_however_long_it_is_slow_the_level_stays() -> None:
    standing, changes = walk([night(f"s{n}", 5.8, 5.3) for n in range(30)])
    assert standing.alert and standing.alert.began == "s0"
    assert set(changes) == {Change.UP}


@pytest.mark.parametrize(
    ("last", "closed"),
    [
        ([night("r", 0.2, -0.3)], True),
        ([night("r", 0.2)], False),  # the run before was slow
        ([night("r", 0.2), night("q", -0.4)], True),
        ([night("r", 0.2), night("q", 5.0)], False),
        ([night("r", 2.6, 2.5)], False),  # half way is not back
        ([night("r", -6.0, -6.0)], True),
        ([night("r", 1.9), night("q", 1.7)], False),  # each might be chance, both are not
    ],
)
def test_it_closes_when_two_runs_are_back(last: list[Night], closed: bool) -> None:
    standing, _ = walk([*SLOW, *last])
    assert (standing.alert is None) is closed


def test_after_it_has_closed_the_same_again_is_another_alert() -> None:
    standing, _ = walk([*SLOW, night("r", 0.1, 0.0), night("t", 6.0, 6.0)])
    assert standing.alert and standing.alert.began == "t"


def test_what_a_person_accepts_is_the_level_from_its_first_night_on() -> None:
    open_one, _ = walk(SLOW)
    standing = accepted(open_one)
    assert standing == Standing(level="s0")
    series = series_of([*QUIET, *SLOW], standing)
    assert [one.name for one in series.nights] == ["s0", "s1", "s2", "s3"]
    assert accepted(Standing()) == Standing()


def test_one_good_night_moves_nothing() -> None:
    standing, changes = walk([night("g", -6.0, -6.0), night("h", 0.3), night("i", -0.2)])
    assert changes[0] is Change.DOWN
    assert standing == Standing()


def test_better_for_long_is_what_is_expected_from_its_first_night_on() -> None:
    good = [night(f"g{n}", -6.0 + n * 0.1, -6.1) for n in range(SETTLED_NIGHTS)]
    almost, _ = walk(good[:-1])
    assert almost.better == ("g0", "g1", "g2", "g3") and almost.level is None
    standing, changes = walk(good)
    assert standing == Standing(level="g0")
    assert set(changes) == {Change.DOWN}


def test_a_few_good_nights_that_long_windows_still_see_are_no_level() -> None:
    good = [night(f"g{n}", -6.0, -6.1) for n in range(3)]
    standing, changes = walk([*good, night("b0", -0.2), night("b1", 0.3), night("b2", 0.1)])
    assert changes[4] is Change.DOWN
    assert standing.level is None and standing.alert is None


def test_getting_worse_from_a_good_night_is_held_to_the_level_before() -> None:
    standing, _ = walk([night("g", -6.0, -6.0), night("h", 0.3, 0.1), night("i", 5.9, 6.1)])
    assert standing.alert == Alert("i", standing.alert.effect if standing.alert else 0.0)
