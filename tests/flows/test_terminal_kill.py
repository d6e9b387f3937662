"""What a person at a terminal reads when a worker or a supervisor is killed by hand: who, where and why, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.terminal import Terminal
from runtime.contract.progress import Operation, Started
from tasks.follow import Follower
from tasks.stages.following import how_it_ended
from tasks.targets.streams import follow_streams
from tests.runtime.supervised import Crew
from tests.waiting import until


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Two workers in the second of three points, which waits for ever."""
    crew = Crew(tmp_path, workers=2, do={"0.1": "wait", "1.1": "wait"}).start()
    try:
        until(lambda: all(any(one.point == 1 for one in crew.bodies(Operation, w)) for w in (0, 1)))
        yield crew
    finally:
        crew.end()


def read_at_the_terminal(crew: Crew, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Follows the crew to its end as the stage *run* does; returns what was shown."""
    terminal = Terminal()
    with Follower(crew.folder / "logs", terminal) as follower:
        streams = {worker: crew.path(worker) for worker in (0, 1)}
        alive = lambda worker: crew.started[worker].poll() is None  # noqa: E731
        end, cause = how_it_ended(follower.follow(follow_streams(streams, {}, alive)))
    terminal(f"attempt 1 {end}: {cause}")
    terminal.causes([cause])
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_is_told_once(crew: Crew, capsys: pytest.CaptureFixture[str], victim: int) -> None:
    os.kill(crew.bodies(Started, victim)[0].pid, signal.SIGKILL)
    told = f"benchmark 2 of 3 (Fake) failed: worker {victim} was killed by SIGKILL while in save"
    milestones = [*(f"benchmark {n} of 3: Fake" for n in (1, 2, 3)), "attempt 1 failed"]
    assert sorted(read_at_the_terminal(crew, capsys)) == sorted([*milestones, told])


@pytest.mark.parametrize(
    ("victim", "cause"),
    [
        (
            0,
            "lost the supervisor of worker 0: its connection closed; worker 1 was in benchmark 2 of 3 (Fake)",
        ),
        (1, "lost the supervisor of worker 1 in save of benchmark 2 of 3 (Fake): its connection closed"),
    ],
)
def test_a_killed_supervisor_is_told_once(
    crew: Crew, capsys: pytest.CaptureFixture[str], victim: int, cause: str
) -> None:
    crew.started[victim].kill()
    milestones = [*(f"benchmark {n} of 3: Fake" for n in (1, 2)), "attempt 1 lost"]
    # A loaded machine may not get through with sealing within the few seconds that it has here.
    shown = [line.partition("; sealing the results took")[0] for line in read_at_the_terminal(crew, capsys)]
    # By whether it died with something unread.
    shown = [line.replace("broke: Connection reset by peer", "closed") for line in shown]
    assert sorted(shown) == sorted([*milestones, f"slicebench: {cause}"])
