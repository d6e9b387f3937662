"""A night is killed before and after each thing that it writes; called again, nothing is done twice and all is told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from runtime.contract.errors import ExitCode
from tasks.cloud.local_storage import LocalFolder
from tasks.history.alerts import Event
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.verdict import Verdict
from tasks.stages.nightly import play_night
from tasks.stages.nightly_alerts import Channel, read_events
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_run import Hands
from tests.tasks.stages.judges import Judge
from tests.tasks.stages.nights import Nights

pytestmark = pytest.mark.chaos

SLOW = SeriesTold("s1", "save", "two", Verdict.REGRESSED, "+10 %", 0.1, told="regressed")
KILLED = -signal.SIGKILL


def _hands(nights: Nights) -> Hands:
    """Runs outlive the night that began them, and are seen to go on by their processes."""

    def goes_on(run_id: str, name: str) -> bool:
        found = (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))
        return any(run_id in words for words in found)

    return replace(nights.hands(), is_held=goes_on)


def _play(nights: Nights, sent: Path) -> int:
    """Plays the night; returns its exit code. Every alert that is sent is a line of a file."""

    def send(event: Event) -> None:
        with sent.open("a") as file:
            file.write(f"{event.id}\n")

    judge = Judge(stands_out=["two"], says=NightTold([SLOW]))
    steps = Steps(judge=lambda night: judge, channels=[Channel("file", send)])
    night = nights.night(["one", "two", "red"])
    return int(play_night(night, _hands(nights), lambda line: None, steps).exit_code or 0)


def _played_until(nights: Nights, sent: Path, nth: int, after: bool) -> int:
    """Plays the night in a process that is killed at its n-th write, before or after that; returns how it ended."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    count = 0

    def deadly(method: Any) -> Any:
        def call(folder: LocalFolder, name: str, content: bytes) -> Any:
            nonlocal count
            count += 1
            mine = count == nth
            if mine and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = method(folder, name, content)
            if mine:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    try:
        for name in ("write", "create"):
            setattr(LocalFolder, name, deadly(getattr(LocalFolder, name)))
        os._exit(_play(nights, sent))
    finally:
        os._exit(99)


def _kills() -> Iterator[tuple[int, bool]]:
    for nth in range(1, 60):
        yield from ((nth, False), (nth, True))


def test_a_night_that_is_killed_anywhere_goes_on_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    for number, (nth, after) in enumerate(_kills()):
        folder = tmp_path / str(number)
        folder.mkdir()
        nights, sent = Nights(folder), folder / "sent"
        nights.plan(red={"code": 3})
        ended = _played_until(nights, sent, nth, after)
        assert ended in (KILLED, ExitCode.INFRASTRUCTURE), f"write {nth}"
        nights.plan()  # what was red before the kill may be tried again: now it runs
        assert _play(nights, sent) == ExitCode.REGRESSION, f"write {nth}"
        words = [call.split() for call in nights.calls]
        begun = [run_id for word, run_id in words if word == "run"]
        assert len(begun) == len(set(begun)) == 4, f"write {nth}: {nights.calls}"
        assert sum(word == "resume" for word, _ in words) <= 1, f"write {nth}: only the red one"
        events = read_events(LocalFolder(folder / "history"), "n")
        assert len({(one.key, one.number) for one in events}) == len(events)
        told = sent.read_text().split()
        assert set(told) == {one.id for one in events}, f"write {nth}: all are sent"
        assert len(told) - len(set(told)) <= 1, (
            f"write {nth}: one that was being sent, at most, is sent twice"
        )
        if ended != KILLED:
            assert nth > 10
            return
    pytest.fail("the night never came to its end")
