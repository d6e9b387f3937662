"""One supervisor around one worker that may misbehave: what is told, what is written down, and that
nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.contract.progress import PointPhase, Started, WorkerExited
from tests.runtime.supervised import Crew

Make = Callable[..., Crew]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    crews: list[Crew] = []

    def one(**fields: object) -> Crew:
        crews.append(Crew(tmp_path, **fields))  # type: ignore[arg-type]
        return crews[-1]

    yield one
    for crew in crews:
        crew.end()


def test_a_good_suite_ends_with_0(make: Make) -> None:
    crew = make().start()
    assert crew.wait() == [0]
    assert crew.exited().cause == ""
    assert [body.first_point for body in crew.bodies(Started)] == [0]
    assert len(crew.bodies(PointPhase)) == 6
    assert crew.says("stand-in of worker 0 from point 0")
    crew.nothing_left()


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("crash", "worker 0 exited with code 7 in save of point 1: something went wrong in C++"),
        ("exit0", "worker 0 exited with code 0 in save of point 1, not through its suite"),
        ("kill:SIGKILL", "worker 0 was killed by SIGKILL while in save of point 1"),
        ("kill:SIGSEGV", "worker 0 was killed by SIGSEGV while in save of point 1"),
    ],
)
def test_a_worker_that_goes_away_costs_one_point(make: Make, what: str, cause: str) -> None:
    crew = make(do={"0.1": what}).start()
    assert crew.wait() == [1]
    assert crew.exited().cause == f"point 1 failed: {cause}"
    assert crew.points_file() == {0: ("passed", ""), 1: ("failed", cause), 2: ("passed", "")}
    assert [body.first_point for body in crew.bodies(Started)] == [0, 2]
    assert len(crew.bodies(WorkerExited)) == 2
    crew.nothing_left()
