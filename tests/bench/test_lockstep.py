"""Two processes that take turns: one runs, the other is stopped."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.bench.lockstep import Player, alternate

_WORK = """
import sys
for turn in range(int(sys.argv[2])):
    with open(sys.argv[1], "a") as diary:
        diary.write(sys.argv[3])
    print("gate", file=sys.stderr, flush=True)
    {after}
"""


def _player(diary: Path, turns: int, name: str, after: str = "import time; time.sleep(0.3)") -> Player:
    program = _WORK.format(after=after)
    command = [sys.executable, "-S", "-c", program, str(diary), str(turns), name]
    return Player(command, os.environ, lambda line: "gate" in line)


def test_they_take_turns_in_an_order_that_favours_neither(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    with _player(diary, 4, "a") as one, _player(diary, 4, "b") as other:
        alternate(one, other, 4)
    assert diary.read_text() == "abbaabba"


def test_between_its_turns_a_process_stands_still(tmp_path: Path) -> None:
    with _player(tmp_path / "diary", 2, "a") as player:
        player.turn()
        deadline = time.monotonic() + 20
        while player.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        player.turn()
        player.finish()
    assert (tmp_path / "diary").read_text() == "aa"


@pytest.mark.parametrize("after", ["sys.exit(3)", "sys.exit(0)"])
def test_one_that_ends_within_a_turn_is_told(tmp_path: Path, after: str) -> None:
    with _player(tmp_path / "diary", 5, "a", after) as player:
        player.turn()
        with pytest.raises(RuntimeError, match="ended within a turn"):
            player.turn()


def test_one_that_ends_badly_is_told(tmp_path: Path) -> None:
    with _player(tmp_path / "diary", 1, "a", "sys.exit(3)") as player:
        player.turn()
        with pytest.raises(RuntimeError, match="ended with code 3"):
            player.finish()
