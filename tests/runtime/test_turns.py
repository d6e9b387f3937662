"""Points of one class take turns, so that what drifts meanwhile drifts for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runtime import effective, rounds
from runtime.contract.disruption import Disruption
from runtime.contract.errors import ExitCode
from runtime.contract.progress import PointPhase
from runtime.contract.repeats import Adaptive
from runtime.fitting import Fitted
from runtime.results_io import Journal
from tests.runtime.passages import Passage, Run, known, point, run, times

__all__ = ["known", "run"]


def saves(passage: Passage) -> list[tuple[int, int]]:
    return [(point, repeat) for point, repeat, operation in times(passage.samples) if operation == "save"]


def last(passage: Passage) -> dict[int, tuple[str, int, bool]]:
    """What stands of each point: its last result."""
    return {each.point: (each.status, each.repeats_done, each.paused) for each in passage.results}


def test_points_of_a_class_take_turns(run: Run) -> None:
    points = [point(0, "Fine"), point(1, "Fine"), point(2, "Elsewhere"), point(3, "Fine")]
    passage = run(points, repeats=2, warmup=1, interleave=True)
    turns = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (3, 0), (3, 1), (3, 2)]
    assert saves(passage) == turns
    assert last(passage) == {
        0: ("passed", 3, False),
        1: ("passed", 3, False),
        2: ("not_run", 0, False),
        3: ("passed", 3, False),
    }
    phases = [each for each in passage.progress if isinstance(each, PointPhase) and each.point == 0]
    ends = [each.status for each in phases if each.phase == "end"]
    assert ends == ["paused", "paused", "passed"]
    assert passage.code is ExitCode.INFRASTRUCTURE


def test_one_that_fails_leaves_its_turns_to_the_others(run: Run) -> None:
    points = [point(0, "FailsLater"), point(1, "FailsLater"), point(2, "FailsLater")]
    passage = run(points, repeats=3, interleave=True)
    assert saves(passage) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert last(passage) == dict.fromkeys(range(3), ("failed", 1, False))


def test_each_has_as_many_turns_as_it_takes(run: Run) -> None:
    asked = Adaptive(2, 4, time_s=1e-6)
    passage = run([point(0, "Fine"), point(1, "Fine")], repeats=4, adaptive=asked, interleave=True)
    assert saves(passage) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert all("were over after 2 repeats" in each.stopped for each in passage.results if not each.paused)


def test_another_session_goes_on_where_turns_were_left(run: Run, tmp_path: Path) -> None:
    """One point has its result, one has had two of its turns, and one none."""
    with Journal(tmp_path / "scratch/journal.jsonl") as journal:
        for index, status, done, paused in ((0, "failed", 1, False), (1, "not_run", 2, True)):
            told = effective.result(
                point(index, "Fine"),
                run_id="run",
                attempt=1,
                worker=0,
                status=status,  # type: ignore[arg-type]
                cause="it was stopped",
                repeats_done=done,
                paused=paused,
            )
            journal.extend([replace(told, paused=True, status="not_run", repeats_done=1), told])
    passage = run([point(n, "Fine") for n in range(3)], repeats=3, interleave=True)
    assert saves(passage) == [(1, 2), (2, 0), (2, 1), (2, 2)]
    assert last(passage) == {0: ("failed", 1, False), 1: ("passed", 3, False), 2: ("passed", 3, False)}


def test_what_is_disrupted_takes_no_turns() -> None:
    plain, struck = point(0, "A"), point(0, "A", disruption=Disruption(at_step=1))
    order = [plain, plain, struck, struck, plain, point(0, "B"), point(0, "B")]
    found = rounds.groups([Fitted(each, None) for each in order], interleave=True)
    assert [len(group) for group in found] == [2, 1, 1, 1, 2]
    assert [len(group) for group in rounds.groups(found[0], interleave=False)] == [1, 1]


def test_turns_share_one_deadline() -> None:
    one = rounds.Opened(Fitted(point(0, "Fine", deadline_s=60.0), None), [0, 1])
    assert one.point.deadline_s == 60.0
    one.spent_s = 45.0
    assert one.point.deadline_s == 15.0
    one.spent_s = 75.0
    assert one.point.deadline_s == 1.0
    assert rounds.Opened(Fitted(point(0, "Fine"), None), [], spent_s=9.0).point.deadline_s is None
