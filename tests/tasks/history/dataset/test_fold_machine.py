"""What a whole machine shows is the machine's: one alert, as long as it lasts, and nothing of its series' own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.decisions import DECISIONS, decisions_of, rows_of_decisions
from tasks.history.dataset.fold import fold, tonight
from tasks.history.dataset.groups import Group, Member, groups
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.recorded import Recorded
from tasks.history.dataset.store import Dataset
from tasks.history.detection.finding import Change
from tasks.history.detection.machine import CONFIRMING
from tasks.history.detection.night import suspects
from tasks.history.detection.series import Night, Run
from tests.tasks.history.dataset.making import NOW, records, row

HISTORY = 20
MACHINE = name_of_machine("g")

Percents = Sequence[float]
"""Of one night, by run, in percent off the level."""


def name_of(night: int) -> str:
    return f"2026-{night // 28 + 1:02}-{night % 28 + 1:02}"


def machine(
    *more: Percents,
    own: Mapping[str, Mapping[int, float]] | None = None,
    count: int = 12,
    few: Mapping[int, int] | None = None,
    accepted: Sequence[int] = (),
) -> Group:
    """Returns series of 20 quiet nights and of more in which all are so many percent off.

    `own`: what a series is off by itself, by night; `few`: nights in which only so many have a value. Nights count
    from 0, which is the first one after the quiet ones.
    """
    random, members = np.random.default_rng(4), {}
    for n in range(count):
        name, nights = f"s{n:03}", []
        for day, percents in enumerate([*[(0.0,)] * HISTORY, *more]):
            runs = [
                Run(
                    _log(percent)
                    + _log((own or {}).get(name, {}).get(day - HISTORY, 0.0))
                    + random.normal(0, 0.005)
                )
                for percent in percents
            ]
            if n < (few or {}).get(day - HISTORY, count):
                nights.append(Night(name_of(day), tuple(runs)))
        members[name] = Member(Recorded(name, {"unit": "s"}, tuple(nights), 0, 1.0), Change.UP)
    return Group("g", members, frozenset(name_of(HISTORY + night) for night in accepted))


def _log(percent: float) -> float:
    return math.log1p(percent / 100)


def folded(one: Group, known: Sequence[Decision] = ()) -> list[Decision]:
    return fold({"g": one}, known)


def told(decisions: Sequence[Decision]) -> dict[str, dict[int, str]]:
    """Returns what happened, by series and night."""
    nights = {name_of(n): n - HISTORY for n in range(200)}
    found: dict[str, dict[int, str]] = {}
    for one in decisions:
        if one.told:
            found.setdefault(one.series, {})[nights[one.night]] = one.told
    return found


def of(decisions: Sequence[Decision], series: str, night: int) -> Decision:
    (found,) = [one for one in decisions if (one.series, one.night) == (series, name_of(HISTORY + night))]
    return found


def test_of_a_machine_that_is_not_off_nothing_is_said() -> None:
    assert MACHINE not in {one.series for one in folded(machine(*[(0.0,)] * 10))}


def test_two_slow_nights_are_one_alert_of_the_machine_and_none_of_its_series() -> None:
    decisions = folded(machine((6.0, 6.0), (6.0,), *[(0.0,)] * 12))
    assert told(decisions) == {MACHINE: {0: "regressed", 3: "recovered"}}
    found = of(decisions, MACHINE, 0)
    assert found.verdict.value == "REGRESSED" and found.effect == pytest.approx(0.06, abs=0.005)
    assert found.low is not None and found.high is not None and found.low < found.effect < found.high
    assert of(decisions, "s003", 1).shift == pytest.approx(0.06, abs=0.005)
    levels = [
        of(decisions, "s003", night).level for night in (1, 5)
    ]  # what it is held to goes with the machine
    assert levels == [pytest.approx(1.06, abs=0.006), pytest.approx(1.0, abs=0.004)]


def test_without_second_runs_the_second_night_says_so() -> None:
    decisions = folded(machine(*[(6.0,)] * 3))
    assert told(decisions) == {MACHINE: {1: "regressed"}} and of(decisions, MACHINE, 1).window == 2


def test_one_run_in_which_all_are_off_is_open_and_no_pass() -> None:
    found = of(folded(machine((6,))), MACHINE, 0)
    assert (found.verdict.value, found.is_open) == ("INCONCLUSIVE", True) and "in one run" in found.reason
    little = of(folded(machine((1.6,))), MACHINE, 0)
    assert (little.verdict.value, little.is_open) == (
        "PASS",
        False,
    ) and "less than what counts" in little.reason


def test_what_second_runs_do_not_show_is_no_alert_and_harms_no_baseline() -> None:
    decisions = folded(machine((6.0, 0.0), *[(0.0,)] * 12))
    assert told(decisions) == {}
    assert "at first" in of(decisions, MACHINE, 0).reason
    # ... and nothing is left of it: the next night is judged as any other.
    assert told(folded(machine((6.0, 0.0), (6.0,)))) == {}


def test_it_stays_one_alert_for_good_and_series_are_judged_by_what_they_differ() -> None:
    slower = {"s004": dict.fromkeys(range(12, 30), 5.0)}
    nights: list[Percents] = [(8.0, 8.0)] * 30
    decisions = folded(machine(*nights, own=slower))
    assert told(decisions) == {MACHINE: {0: "regressed"}, "s004": {12: "regressed"}}
    assert of(decisions, "s004", 12).effect == pytest.approx(0.05, abs=0.01)
    assert of(decisions, "s005", 29).verdict.value == "PASS"
    back = folded(machine(*nights, *[(0.0, 0.0)] * 12, own=slower))
    assert told(back) == {
        MACHINE: {0: "regressed", 30: "recovered"},
        "s004": {12: "regressed", 30: "recovered"},
    }


def test_once_it_is_accepted_all_go_on_from_there_without_a_night_unjudged() -> None:
    nights: list[Percents] = [*[(8.0, 8.0)] * 12, (14.0, 14.0), (14.0,), (8.0,), (8.0,)]
    decisions = folded(machine(*nights, own={"s004": {6: 5.0, 7: 5.0}}, accepted=[3]))
    assert told(decisions)[MACHINE] == {0: "regressed", 3: "new level", 12: "regressed", 15: "recovered"}
    assert told(decisions)["s004"] == {6: "regressed", 8: "recovered"}
    assert len(told(decisions)) == 2
    expected = of(decisions, MACHINE, 5)
    assert expected.standing.alert is None and expected.level == pytest.approx(1.08, abs=0.005)
    one = of(decisions, "s005", 5)
    assert one.verdict.value == "PASS" and one.level == pytest.approx(1.08, abs=0.01)
    assert of(decisions, MACHINE, 12).effect == pytest.approx(0.14 / 1.08 - 0.08 / 1.08, abs=0.005)


def test_better_for_long_is_expected_from_then_on_and_back_is_worse() -> None:
    decisions = folded(machine(*[(-8.0, -8.0)] * 8, (0.0, 0.0), (0.0,)))
    assert told(decisions) == {MACHINE: {0: "improved", 4: "new level", 8: "regressed"}}


def test_what_few_series_cannot_tell_is_taken_from_the_nights_before() -> None:
    slow: list[Percents] = [(8.0, 8.0)] * 3
    alone = folded(machine(*slow, (8.0, 8.0), (8.0, 8.0), few={3: 4}))
    assert told(alone) == {MACHINE: {0: "regressed"}}
    assert of(alone, MACHINE, 3).verdict.value == "REGRESSED"
    back = folded(machine(*slow, (0.0, 0.0), (0.0, 0.0), few={3: 4}))
    assert told(back) == {MACHINE: {0: "regressed", 4: "recovered"}}


def test_series_that_stand_elsewhere_by_themselves_do_not_hide_what_all_show() -> None:
    own = {f"s{n:03}": dict.fromkeys(range(10), 6.0) for n in range(4)}
    decisions = folded(machine(*[(0.0, 0.0)] * 5, (5.0, 5.0), (5.0,), *[(0.0,)] * 3, own=own))
    assert told(decisions)[MACHINE] == {5: "regressed", 8: "recovered"}
    assert {name for name in told(decisions) if name != MACHINE} == set(own)
    assert of(decisions, MACHINE, 5).effect == pytest.approx(0.05, abs=0.006)


def test_a_few_of_the_typical_series_are_made_again_for_the_machine() -> None:
    made = machine((6.0,), own={"s020": {0: 20.0}}, count=40)
    now = tonight({"g": made}, name_of(HISTORY))
    asked = suspects(now.series, now.machines)
    assert CONFIRMING <= len(asked) < 30 and "s020" in asked
    quiet = tonight({"g": machine((0.0,), count=40)}, name_of(HISTORY))
    assert len(suspects(quiet.series, quiet.machines)) < CONFIRMING
    told_already = tonight({"g": machine((6.0, 6.0), (6.0,), count=40)}, name_of(HISTORY + 1))
    assert len(suspects(told_already.series, told_already.machines)) < CONFIRMING


def test_machines_are_decided_as_they_were_when_they_are_read_again(tmp_path: Path) -> None:
    nights: list[Percents] = [(8.0, 8.0), (8.0,), (8.0, 2.0), *[(0.0,)] * 4]
    decisions = folded(machine(*nights))
    dataset = Dataset(open_folder(str(tmp_path)), DECISIONS)
    dataset.append_months("x", rows_of_decisions(decisions, NOW))
    found = decisions_of(dataset.read().rows())
    assert sorted(found, key=lambda one: one.series) == sorted(decisions, key=lambda one: one.series)
    assert folded(machine(*nights), found) == decisions
    more = machine(*nights, (0.0, 0.0))
    assert folded(more, found) == folded(more)
    # An accepted night, or one that is gone, changes all that follows.
    other = dataclasses.replace(machine(*nights), accepted=frozenset([name_of(HISTORY)]))
    assert folded(other, found) == folded(other) != decisions


def test_memory_has_a_machine_of_its_own(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    dataset.append([row(0), row(0, metric="peak_rss_over_start_bytes", unit="bytes")])
    found = groups(records(dataset))
    assert len(found) == 2 and {name.rpartition("/")[2] for name in found} == {"released", "bytes"}
    assert sorted(one.title.split(" on ")[0] for one in found.values()) == ["all memory", "all times"]
