"""Two nightlies on one machine: one run at a time on each place, each night by one process, no dead one in the way."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.config.nightly_cells import Night
from tasks.stages.nightly import play_night
from tasks.stages.nightly_child import Given, play
from tasks.stages.nightly_locks import Held, Locks, Wanted, playing_alone
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import NightRecord
from tests.tasks.stages.judges import Judge
from tests.tasks.stages.nights import Nights

HERE = Wanted(frozenset({"this machine"}), "measuring another one", 0.0, lambda: None)


def _play(nights: Nights, night: Night, said: list[str]) -> NightRecord:
    return play_night(night, nights.hands(), said.append, replace(Steps(), judge=lambda night: Judge()))


def _another(stack: ExitStack) -> Held:
    return stack.enter_context(Locks().held(HERE, lambda line: None))


def test_what_another_nightly_measures_on_is_not_run_and_says_who_has_it(nights: Nights) -> None:
    night, said = nights.night(wait_for_lock="0s"), list[str]()
    with ExitStack() as stack:
        assert _another(stack).why_not == ""
        record = _play(nights, night, said)
    [cell] = record.cells
    assert (cell.status, nights.calls, record.exit_code) == ("not_run", [], 3)
    who = f"process {os.getpid()}, which is measuring another one"
    assert who in cell.cause and f"this machine is in use: waiting for {who}" in said
    assert _play(nights, night, said).exit_code == 0


def test_it_is_waited_for(nights: Nights) -> None:
    with ExitStack() as stack:
        _another(stack)
        said: list[str] = []

        def say(line: str) -> None:
            said.append(line)
            if "in use" in line:
                assert nights.calls == []
                stack.close()

        record = play_night(
            nights.night(), nights.hands(), say, replace(Steps(), judge=lambda night: Judge())
        )
    assert (record.exit_code, len(nights.calls)) == (0, 1)


def test_a_run_whose_nightly_was_killed_has_its_place_until_it_ends(nights: Nights, tmp_path: Path) -> None:
    with ExitStack() as stack:
        descriptors = _another(stack).descriptors
        given = Given(tmp_path / "log", os.environ, descriptors)
        words = ["sh", "-c", f"test -e /proc/self/fd/{descriptors[0]}"]
        assert play(words, given, until=lambda: False, stop_s=1.0).code == 0
        run = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=descriptors)
    with ExitStack() as stack:
        assert "is still held" in _another(stack).why_not
    run.communicate(timeout=60)
    with ExitStack() as stack:
        assert _another(stack).why_not == ""


def test_a_night_that_is_over_waits_no_longer(nights: Nights) -> None:
    with ExitStack() as stack:
        _another(stack)
        wanted = replace(HERE, wait_s=3600.0, over=lambda: "the night was interrupted")
        held = stack.enter_context(Locks().held(wanted, lambda line: None))
        assert (held.why_not, held.descriptors) == ("the night was interrupted", ())


def test_a_night_is_played_by_one_process_at_a_time(nights: Nights) -> None:
    night = nights.night(wait_for_lock="0s")
    with (
        playing_alone(night.name, night.uri, 0.0, lambda line: None),
        pytest.raises(
            InfrastructureError, match=f"process {os.getpid()}, which is playing the night n-20261129"
        ),
    ):
        _play(nights, night, [])
    assert nights.calls == []
    assert _play(nights, night, []).exit_code == 0
