"""axlearn's lines become saves, restores, losses and restarts, with stars and without dates, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tasks.history.acceptance import Start
from tasks.history.acceptance_log import read_log


def line(told: str, at: str = "10:00:00.000000", prefix: str = "I0102 ") -> str:
    return f"{prefix}{at} 140123 checkpointer.py:321] {told}\n"


def saved(step: int, seconds: str) -> str:
    return line(f"Serialization of gs://b/fuji/checkpoints/step_{step:08d} completed in {seconds} seconds.")


def restoring(step: int, at: str, prefix: str = "I0102 ") -> str:
    return line(f"Restoring checkpoint from directory gs://b/fuji/checkpoints/step_{step:08d}", at, prefix)


def restored(step: int, at: str, prefix: str = "I0102 ") -> str:
    return line(f"Restored state from ckpt at step {step}", at, prefix)


NOTHING = line("Could not find any completed checkpoints under gs://b/fuji/checkpoints.")


def test_a_log_of_two_starts() -> None:
    first, second = read_log(
        [
            NOTHING,
            saved(100, "57.11"),
            line("Writing index file to gs://b/fuji/checkpoints/step_00000100/index"),
            saved(200, "58.69"),
            saved(300, "5.814e1"),
            restoring(300, "10:20:00.250000"),
            line("something else"),
            restored(300, "10:20:39.220000"),
            saved(400, "58"),
        ]
    )
    assert first == Start((57.11, 58.69, 58.14), saved=(100, 200, 300))
    assert second == Start((58.0,), (38.97,), resumed=300, saved=(400,))


@pytest.mark.parametrize("prefix", ["", "I0102 ", "**I0102 ", "**", "I0102 **", "E ", "pod-0: I0102 "])
@pytest.mark.parametrize(
    ("began", "ended", "took"),
    [("12:00:00.000000", "12:00:33.400000", 33.4), ("23:59:50.000000", "00:00:23.400000", 33.4)],
)
def test_a_restore_is_told_by_two_lines(prefix: str, began: str, ended: str, took: float) -> None:
    (found,) = read_log([restoring(7, f"{began}**", prefix), restored(7, f"{ended}**", prefix)])
    assert (found.restores, found.resumed) == ((took,), 7)


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        ([], [Start()]),
        ([restoring(7, "12:00:00.000000"), restored(8, "12:00:09.000000")], [Start(resumed=8)]),
        ([restored(7, "12:00:00.000000")], [Start(resumed=7)]),
        # It died while it restored, and was started again.
        (
            [
                restoring(7, "12:00:00.000000"),
                restoring(7, "13:00:00.000000"),
                restored(7, "13:00:02.000000"),
            ],
            [Start((), (2.0,), resumed=7)],
        ),
        ([saved(1, "3.."), saved(2, "1.5")], [Start((1.5,), saved=(2,))]),
        ([saved(1, "3"), saved(1, "4"), saved(1, "2")], [Start((4.0,), saved=(1,))]),
        (["\xff\0 not a line of a log", "Serialization of x"], [Start()]),
        (["step 3: loss 0.5\n", "step 4: loss many\n"], [Start(losses={3: 0.5})]),
    ],
)
def test_odd_logs(lines: Sequence[str], starts: list[Start]) -> None:
    assert read_log(lines) == starts


def test_losses_of_another_program() -> None:
    pattern = re.compile(r"step (?P<step>\d+).*?loss=(?P<loss>[\d.]+)")
    (found,) = read_log([line("Train step 7 lr=0.1 loss=4.25 grad=1")], pattern)
    assert found.losses == {7: 4.25}


def test_a_log_of_our_own_program() -> None:
    first, found = read_log(
        [
            "trains until step 12 on 4 devices",
            "step 9: loss 0.75",
            "trains until step 12 on 4 devices",
            "restored step 9 in 1.250000 s",
            "step 10: loss 0.5",
            "saved step 10 in 2.500000 s",
            "restored step 10 in 1.0 s",
        ]
    )
    assert first == Start((), (), {9: 0.75})
    assert found == Start((2.5,), (1.25, 1.0), {10: 0.5}, resumed=9, saved=(10,))
