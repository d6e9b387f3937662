"""Nights are decided one after the other; what was decided stands until what it rests on changes."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.cloud.storage import open_folder
from tasks.history.dataset import fold as folding
from tasks.history.dataset.decision import Decision
from tasks.history.dataset.decisions import DECISIONS, decisions_of, rows_of_decisions
from tasks.history.dataset.fold import fold, tonight
from tasks.history.dataset.groups import Group, Member, groups, narrowed
from tasks.history.dataset.recorded import Recorded
from tasks.history.dataset.store import Dataset
from tasks.history.detection.finding import Change
from tasks.history.detection.night import suspects
from tasks.history.detection.series import Night
from tests.tasks.history.dataset.making import NOW, records, row
from tests.tasks.history.detection.nights import QUIET, night, nights


def dated(found: Sequence[Night]) -> tuple[Night, ...]:
    """Returns the nights with names that sort as their numbers do."""
    return tuple(one._replace(name=f"2026-{n // 28 + 1:02}-{n % 28 + 1:02}") for n, one in enumerate(found))


def group(*more: float | tuple[float, ...], accepted: Sequence[int] = (), worse: Change = Change.UP) -> Group:
    """Returns a series of 32 quiet nights and of more that are so many percent off, two runs where there are two."""
    added = [night("", *((one,) if isinstance(one, float) else one)) for one in more]
    told = dated([*QUIET, *added])
    member = Member(recorded("a", told), worse, frozenset(told[n].name for n in accepted))
    return Group("g", {"a": member})


def folded(one: Group, known: Sequence[Decision] = (), **bounds: Any) -> list[Decision]:
    return fold({one.name: one}, known, **bounds)


def recorded(name: str, told: tuple[Night, ...]) -> Recorded:
    return Recorded(name, {}, told, 0, 1.0)


def told(decisions: Sequence[Decision]) -> Mapping[int, str]:
    """Returns what happened, by how many nights after the 32 quiet ones."""
    names = {one.name: n - len(QUIET) for n, one in enumerate(dated([*QUIET, *nights(*[0.0] * 40)]))}
    return {names[one.night]: one.told for one in decisions if one.told}


@pytest.mark.parametrize(
    ("last", "verdict", "reason"),
    [
        (
            (60.0, 45.0),
            "INCONCLUSIVE",
            r"\+52 % in runs that differ more than a change makes them: .* next night tells",
        ),
        ((-40.0, -25.0), "INCONCLUSIVE", "in runs that differ"),
        (60.0, "INCONCLUSIVE", r"\+60 % in one run: whether that is chance a second one would tell"),
        ((60.0, 0.2), "PASS", "within what nights scatter by"),  # a spike
        ((5.0, 4.8), "REGRESSED", r"\+4.9 %"),
        (1.5, "PASS", "within what nights scatter by"),
    ],
)
def test_a_night_that_is_off_without_being_a_change_is_not_green(
    last: float | tuple[float, ...], verdict: str, reason: str
) -> None:
    found = folded(group(last))[-1]
    assert found.verdict.value == verdict
    assert re.search(reason, found.reason)


def test_a_quiet_series_passes_once_it_has_a_baseline() -> None:
    found = [(one.verdict.value, one.standing.alert) for one in folded(group())]
    assert [verdict for verdict, _ in found] == ["NO_BASELINE"] + ["INCONCLUSIVE"] * 7 + ["PASS"] * 24
    assert {alert for _, alert in found} == {None}


def test_a_regression_is_told_once_and_closed_on_recovery() -> None:
    decisions = folded(group((10.0, 10.2), 10.1, 9.8, 0.1, -0.2, 0.3))
    assert told(decisions) == {0: "regressed", 4: "recovered"}
    assert [one.verdict.value for one in decisions[-6:]] == ["REGRESSED"] * 4 + ["PASS"] * 2
    first = decisions[-6]
    assert first.effect == pytest.approx(0.101, abs=0.003)
    assert first.low is not None and first.high is not None
    assert first.low < 0.09 and first.high > 0.11 and first.level == pytest.approx(1.0, abs=0.005)
    assert decisions[-5].reason == f"{first.reason} since {first.night}"


@pytest.mark.parametrize("length", [4, 18, 40, 80])
@pytest.mark.parametrize("again", [True, False])
def test_what_was_slow_for_long_is_told_once_and_leaves_no_trace(length: int, again: bool) -> None:
    random = np.random.default_rng(1)
    slow = [(10.0 + random.normal(0, 0.7), 10.2 + random.normal(0, 0.7)) for _ in range(length)]
    back = [
        (random.normal(0, 0.7), random.normal(0, 0.7)) if again else random.normal(0, 0.7) for _ in range(12)
    ]
    decisions = folded(group(*slow, *back))
    assert [one.told for one in decisions if one.told] == ["regressed", "recovered"]
    assert decisions[-1].level == pytest.approx(1.0, abs=0.005) and "± 0.7 %" in decisions[-1].reason


def test_better_is_improved_and_a_new_level_after_five_nights() -> None:
    decisions = folded(group(*[(-10.0, -10.1)] * 6))
    assert told(decisions) == {0: "improved", 4: "new level"}
    assert decisions[-6].verdict.value == "IMPROVED"


def test_where_more_is_better_less_is_worse() -> None:
    assert told(folded(group((-10.0, -10.1), worse=Change.DOWN))) == {0: "regressed"}


def test_an_accepted_night_begins_a_new_level() -> None:
    more = [(10.0, 10.2), *[10.0 + 0.1 * (n % 5) for n in range(14)]]
    decisions = folded(group(*more, accepted=[34]))
    assert told(decisions) == {0: "regressed", 2: "new level"}
    after = {one.standing.level for one in decisions[34:]}
    assert after == {decisions[34].night}
    first = decisions[34]
    assert first.standing.alert is None and first.level == pytest.approx(1.101)
    assert (first.verdict.value, first.effect) == ("NO_BASELINE", pytest.approx(0.1, abs=0.003))
    assert {one.verdict.value for one in decisions[35:]} == {"PASS"}
    assert {round(one.level or 0.0, 2) for one in decisions[35:]} == {1.1}


@pytest.mark.parametrize("after", [1, 2, 3, 6, 10, 14])
def test_what_gets_slower_soon_after_a_level_was_accepted_is_found(after: int) -> None:
    still = [10.0 + 0.3 * (n % 4) for n in range(after)]
    decisions = folded(group(*still, *[(21.0, 21.4)] * 3, accepted=[32]))
    assert told(decisions) == {0: "new level", after: "regressed"}
    assert decisions[-1].effect == pytest.approx(0.1, abs=0.01) and decisions[-1].verdict.value == "REGRESSED"


@pytest.mark.parametrize("after", [5, 6, 8, 11, 14])
def test_what_gets_slower_soon_after_it_got_better_is_found(after: int) -> None:
    better = [(-15.0, -15.0 + 0.4 * (n % 4)) for n in range(after)]
    decisions = folded(group(*better, *[(0.1, -0.2)] * 12))
    assert told(decisions) == {0: "improved", 4: "new level", after: "regressed"}
    assert {one.verdict.value for one in decisions[32 + after :]} == {"REGRESSED"}
    assert decisions[-1].level == pytest.approx(0.856, abs=0.004)


@pytest.mark.parametrize(
    ("nights", "reason"),
    [
        (3, "2 earlier nights: it takes 8 to know how much nights scatter"),
        (2, "1 earlier night: it takes 8"),
    ],
)
def test_why_a_young_series_is_not_judged(nights: int, reason: str) -> None:
    young = Group("g", {"a": Member(recorded("a", dated(QUIET[:nights])), Change.UP)})
    assert reason in folded(young)[-1].reason


def test_a_young_series_that_has_a_level_accepted_waits_for_eight_nights_of_it() -> None:
    member = Member(recorded("a", dated(QUIET[:6])), Change.UP, frozenset([dated(QUIET)[3].name]))
    found = folded(Group("g", {"a": member}))
    assert found[3].reason == "accepted: from this night on it is held to what it was in it"
    assert "2 earlier nights since the new level of 2026-01-04" in found[-1].reason


def test_a_spike_among_the_first_nights_delays_a_verdict_by_a_night() -> None:
    first = (*QUIET[:3], night("", 40.0), *QUIET[3:12])
    found = folded(Group("g", {"a": Member(recorded("a", dated(first)), Change.UP)}))
    assert [one.verdict.value for one in found][7:10] == ["INCONCLUSIVE", "INCONCLUSIVE", "PASS"]
    assert "far off the others" in found[8].reason


def test_a_step_that_two_nights_show_is_dated_at_the_first_of_them() -> None:
    found = folded(group(4.0, 4.1, 4.2))
    assert told(found) == {1: "regressed"}
    assert found[-1].reason.endswith(f"since {found[-3].night}")


def test_a_group_that_is_too_noisy_is_not_judged_green() -> None:
    wild = tuple(night(str(n), 40.0 if n % 2 else -40.0) for n in range(20))
    decisions = folded(Group("g", {"a": Member(recorded("a", dated(wild)), Change.UP)}))
    assert decisions[-1].verdict.value == "INCONCLUSIVE" and "too noisy" in decisions[-1].reason


def test_what_was_decided_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    made = group((10.0, 10.2), 10.1)
    known = folded(made)
    decided: list[str] = []
    decide = folding.decide
    monkeypatch.setattr(folding, "decide", lambda *told: decided.append("") or decide(*told))
    assert folded(made, known) == known and not decided
    more = group((10.0, 10.2), 10.1, 0.0)
    assert folded(more, known)[:-1] == known and len(decided) == 1


def test_a_night_that_is_excluded_afterwards_changes_all_that_follows() -> None:
    known = folded(group((10.0, 10.2), 10.1, 0.2))
    assert told(known)[0] == "regressed"
    whole = group((10.0, 10.2), 10.1, 0.2).members["a"].recorded.nights
    without = Group("g", {"a": Member(recorded("a", (*whole[:32], whole[34])), Change.UP)})
    again = folded(without, known)
    assert told(again) == {} and again[:32] == known[:32]
    assert [one.verdict.value for one in again[32:]] == ["PASS"]


def test_with_a_bound_only_the_latest_nights_are_decided() -> None:
    assert len(folded(group(), most=5)) == 5
    assert len(folded(group(), folded(group())[:20], most=5)) == 25
    assert len(folded(group(), before="2026-01-11")) == 10


def test_tonight_is_judged_by_the_level_that_holds() -> None:
    made = group((10.0, 10.2), 10.1)
    last = made.nights[-1]
    series = tonight({"g": made}, last).series["g"]["a"]
    assert (series.nights[-1].name, series.level) == (last, 32)
    assert suspects({"g": {"a": series}}) == ["a"]
    assert tonight({"g": made}, "2030-01-01").series == {}


def test_only_what_is_measured_itself_is_judged_in_groups_of_machine_and_track(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)))
    speed, ratio = row(0, metric="bytes_per_s", unit="bytes/s"), row(0, metric="rss_per_saved_byte", unit="1")
    dataset.append([row(0), speed, ratio])
    dataset.append([row(1, track="pr 1")])
    found = groups(records(dataset))
    assert [
        [member.recorded.about["metric"] for member in one.members.values()] for one in found.values()
    ] == [
        ["time_s"],
        ["time_s"],
    ]
    assert {name.partition("/")[2] for name in found} == {"released", "pr 1"}


def test_decisions_are_read_as_they_were_written_and_the_latest_counts(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)), DECISIONS)
    made = group((10.0, 10.2), 10.1, 9.8, 0.1, -0.2, *[(-10.0, -10.1)] * 3)
    decisions = folded(made)
    dataset.append_months("x", rows_of_decisions(decisions, NOW))
    other = [dataclasses.replace(decisions[3], reason="else")]
    dataset.append_months("x", rows_of_decisions(other, NOW + 1))
    dataset.append_months("x", rows_of_decisions(decisions, NOW))
    found = decisions_of(dataset.read().rows())
    assert found[3].reason == "else"
    assert [one for one in found if one.reason != "else"] == [*decisions[:3], *decisions[4:]]
    assert folded(made, found) == found
    assert not any(math.isnan(one.effect) for one in found if one.effect is not None)


def test_a_decision_in_words_that_we_do_not_know_is_made_again(tmp_path: Path) -> None:
    dataset = Dataset(open_folder(str(tmp_path)), DECISIONS)
    rows = rows_of_decisions(folded(group()), NOW)
    odd = {month: [{**one, "verdict": "MAYBE"} for one in found] for month, found in rows.items()}
    dataset.append_months("x", odd)
    assert decisions_of(dataset.read().rows()) == []


def test_a_change_that_is_too_small_to_matter_is_none() -> None:
    small = [(4.0, 4.1), 4.0, 4.2]
    one = group(*small).members["a"]
    for least, found in ((0.02, "regressed"), (0.05, "")):
        judged = Group("g", {"a": dataclasses.replace(one, least=least)})
        assert told(folded(judged)).get(0, "") == found
        assert folded(judged, folded(group(*small)))[-1].least == least


def test_groups_are_decided_together_and_each_stands_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    one = group((10.0, 10.2), 10.1)
    shorter = recorded("b", one.members["a"].recorded.nights[:33])
    other = Group("h", {"b": dataclasses.replace(one.members["a"], recorded=shorter)})
    known = fold({"g": one, "h": other})
    assert {(found.group, found.series) for found in known} == {("g", "a"), ("h", "b")}
    decided: list[int] = []
    decide = folding.decide
    monkeypatch.setattr(
        folding, "decide", lambda series, machines: decided.append(len(series)) or decide(series, machines)
    )
    assert fold({"g": one, "h": other}, known) == known and not decided
    stale = [found for found in known if found.group == "h" or found.night < other.nights[-1]]
    assert fold({"g": one, "h": other}, stale) == known and decided == [2, 1]


def test_of_a_large_group_some_series_are_decided_with_the_one_that_is_asked_for() -> None:
    member = group().members["a"]
    many = Group("g", {f"{n:03}": dataclasses.replace(member) for n in range(100)})
    few = narrowed(many, "050", (), nights=10, most=200)
    assert len(few.members) == 21 and "050" in few.members and few.name == "g"
    assert narrowed(many, "050", (), nights=10, most=1000) is many
    one = folded(Group("g", {"050": member}))
    assert (
        narrowed(many, "050", one[:-1], nights=10, most=200) is many
    )  # what is decided need not be decided again
