"""What a series is said to be: by its newest night, whether that gave a value or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.history.dataset.decision import Decision
from tasks.history.dataset.lines import Shown, show_lines, shown_object
from tasks.history.dataset.notes import Notes
from tasks.history.dataset.of_machine import name_of_machine
from tasks.history.dataset.recorded import Hole, Recorded, Seen
from tasks.history.detection.series import Night, Run
from tasks.history.detection.standing import Standing
from tasks.history.verdict import Verdict

ABOUT: dict[str, Any] = {
    "suite": "S", "label": "", "benchmark": "b", "operation": "save", "metric": "time_s", "unit": "s",
    "fingerprint": "", "track": "released", "definition": "", "target": "t", "benchmark_key": "k",
}  # fmt: skip
DECIDED = Decision("02", "g", "one", "", Verdict.PASS, "fine", Standing(), level=1.0, scatter=0.01)
HOLE = Hole("03", "run-3", 3.0, "not_run", "")


def seen(night: str, value: float = 1.0, aside: str = "", **changed: Any) -> Seen:
    run = Run(0.0) if value > 0 else None
    made = {
        "night": night, "run_id": f"run-{night}", "began_at": float(night), "values": [value], "unit": "s",
        "versions": {}, "run": run, "aside": aside,
    }  # fmt: skip
    return Seen(**{**made, **changed})


def shown(*last: Seen | Hole, decisions: tuple[Decision, ...] = (DECIDED,), **about: Any) -> Shown:
    told = [seen("01"), seen("02"), *(one for one in last if isinstance(one, Seen))]
    nights = tuple(Night(one.night, (Run(0.0),)) for one in told if one.run and not one.aside)
    one = Recorded("one", ABOUT | about, nights, 0, 1.0)
    return Shown(one, told, [one for one in last if isinstance(one, Hole)], decisions, Notes())


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (shown(), "PASS", "fine"),
        (shown(HOLE), "NOT_RUN", "03: not run"),
        (shown(Hole("03", "run-3", 3.0, "failed", "no room")), "NOT_RUN", "03: no room"),
        (shown(seen("03", 0.0)), "NOT_RUN", "03: no value of it is a positive number"),
        (shown(seen("02", 0.0)), "PASS", "fine"),  # another run of that night gave one
        (shown(seen("03", aside="excluded by me")), "PASS", "fine (of 02, the last that counts)"),
        (shown(decisions=(), unit="ms"), "no verdict", "it is in ms, and judged in s alone"),
        (shown(decisions=(), metric="rss", unit="1"), "no verdict", "it follows from times and memory"),
    ],
)
def test_the_newest_night_says_where_a_series_stands(found: Shown, verdict: str, reason: str) -> None:
    assert show_lines(found, 5)[3].startswith(f"{verdict}: {reason}")
    told = shown_object(found)
    assert (told["verdict"] or "no verdict", told["reason"].startswith(reason)) == (verdict, True)


def test_of_which_night_the_distance_from_the_level_is() -> None:
    assert show_lines(shown(), 5)[4] == "level 1.00 s, nights scatter by ± 1.0 %; the latest is +0.0 % off it"
    assert "; 02 is +0.0 % off it" in show_lines(shown(HOLE), 5)[4]


@pytest.mark.parametrize(
    ("off", "again", "words"),
    [(0.2, 0.2, "+20 %"), (0.2, 0.1, "+10 %"), (0.2, 0.0, ""), (0.01, None, ""), (None, None, "")],
)
def test_a_level_that_went_with_the_whole_machine_names_it(
    off: float | None, again: float | None, words: str
) -> None:
    lines = show_lines(shown(decisions=(replace(DECIDED, shift=off, shift_again=again),)), 5)
    told = (
        f"the whole machine is {words} off, and the level with it: slicebench history {name_of_machine('g')}"
    )
    assert lines[5] == (told if words else "")
