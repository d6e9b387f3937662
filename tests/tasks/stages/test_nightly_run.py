"""A run of a night is made once, gone on with, waited for, cut in time; how it ended is told by outcome.json."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.config.nightly_cells import CellRun
from tasks.stages.nightly_run import RunEnd, measure, words_of
from tests.tasks.stages.nights import Nights


def _only_run(nights: Nights) -> CellRun:
    night = nights.night()
    [cell] = night.cells()
    [one] = night.runs(cell)
    return one


def _measure(nights: Nights, limit_s: float = 60.0, stop_s: float = 30.0) -> RunEnd:
    return measure(_only_run(nights), nights.hands(), nights.watch(limit_s, stop_s), lambda line: None)


@pytest.mark.parametrize(
    ("plan", "status", "code", "cause", "trouble"),
    [
        ({}, "passed", 0, "", None),
        ({"code": 4}, "passed", 4, "it went wrong", None),
        ({"code": 1, "causes": ["wrong data"]}, "failed", 1, "wrong data", None),
        ({"code": 3, "trouble": "stockout"}, "not_run", 3, "it went wrong", "stockout"),
        ({"code": 5}, "not_run", 5, "it went wrong", None),
        ({"code": 3, "silent": True}, "not_run", 3, "the last words", None),
        ({"code": 139, "silent": True}, "not_run", 3, "the last words", None),
    ],
)
def test_how_a_run_ended_is_told_by_its_outcome_else_by_its_last_words(
    nights: Nights, plan: dict[str, object], status: str, code: int, cause: str, trouble: str | None
) -> None:
    nights.plan(one=plan)
    end = _measure(nights)
    assert (end.status, end.exit_code, end.cause, end.trouble) == (status, code, cause, trouble)


def test_a_run_that_ended_is_not_made_again_and_one_that_did_not_is_gone_on_with(nights: Nights) -> None:
    run_id = _only_run(nights).run_id
    nights.plan(one={"code": 3})
    assert _measure(nights).status == "not_run"
    nights.plan()
    assert _measure(nights).status == "passed"
    assert _measure(nights).status == "passed"
    assert nights.calls == [f"run {run_id}", f"resume {run_id}"]


def test_a_run_that_hangs_is_cut_at_its_deadline_and_gives_back_by_itself(nights: Nights) -> None:
    nights.plan(one={"hang": True})
    end = _measure(nights, limit_s=1.0)
    assert (end.status, end.exit_code, end.trouble) == ("not_run", 3, "deadline")
    assert end.cause == "cut at its deadline of 1 s"
    assert end.began_at is not None
    assert end.ended_at is not None


def test_one_that_does_not_stop_is_killed_and_its_lease_released(nights: Nights) -> None:
    nights.plan(one={"stubborn": True})
    end = _measure(nights, limit_s=0.5, stop_s=0.5)
    assert "killed" in end.cause
    assert nights.released == [end.run_id]


def test_one_that_another_process_has_is_waited_for_and_not_made_twice(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = _only_run(nights)
    folder = Path(str(one.request.output)) / one.run_id
    nights.held.add(one.run_id)
    looks = 0

    def is_over(condition: Callable[[], bool], until: Callable[[], bool]) -> bool:
        nonlocal looks
        looks += 1
        assert not condition()  # it is held
        folder.mkdir(parents=True)
        outcome = {"exit_code": 0, "finished_at": time.time(), "took_s": 1.0, "verdict": "PASS"}
        (folder / "outcome.json").write_text(json.dumps(outcome))
        nights.held.clear()
        assert condition()
        return True

    monkeypatch.setattr("tasks.stages.nightly_run.wait_for", is_over)
    assert measure(one, nights.hands(), nights.watch(), lambda line: None).status == "passed"
    assert (looks, nights.calls) == (1, [])


def test_one_that_ends_while_it_is_looked_for_is_not_gone_on_with(nights: Nights) -> None:
    """Who had it wrote down how it ended after we looked for that, and was gone before we looked for its process."""
    one = _only_run(nights)
    folder = Path(str(one.request.output)) / one.run_id

    def is_held(run_id: str, name: str) -> bool:
        folder.mkdir(parents=True)
        outcome = {"exit_code": 0, "finished_at": time.time(), "took_s": 1.0, "verdict": "PASS"}
        (folder / "outcome.json").write_text(json.dumps(outcome))
        return False

    hands = replace(nights.hands(), is_held=is_held)
    assert measure(one, hands, nights.watch(), lambda line: None).status == "passed"
    assert nights.calls == []


def test_nothing_begins_once_the_night_is_stopped(nights: Nights) -> None:
    watch = nights.watch()
    watch.stop.set()
    end = measure(_only_run(nights), nights.hands(), watch, lambda line: None)
    assert (end.exit_code, end.trouble, nights.calls) == (130, "stopped", [])


def test_the_command_says_all_that_the_cell_is(nights: Nights) -> None:
    night = nights.night(versions=[{"pr": 7, "jax": "0.10.1"}], set=["num_repeats=3"], env=["A=1", "B"])
    [one] = night.runs(night.cells()[0])
    words = " ".join(words_of(one.request, resume=False))
    for part in (
        "--pr 7",
        "--jax-version 0.10.1",
        "--set num_repeats=3",
        "--env A=1 --env B",
        "--run-deadline-s",
    ):
        assert part in words
    assert words_of(one.request, resume=True)[:2] == ["--resume", one.run_id]
