"""What an acceptance has to prove is proved, disproved, or said not to be known; nothing passes for lack of a look."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tasks.history.acceptance import Start
from tasks.history.acceptance_checks import losses_go_on, went_on


def again(
    newest: int | None, resumed: int | None, losses: Mapping[int, float] | None = None, **more: bool
) -> Start:
    return replace(Start((), (), losses or {}, newest, resumed), **more)


CUT = again(0, None, cut=True)


@pytest.mark.parametrize(
    ("starts", "passed", "told"),
    [
        ([Start(), again(20, 20), again(40, 40)], True, "from step 20, 40"),
        (
            [Start(), again(20, 20), again(40, 20)],
            False,
            "went on from step 20, and the newest complete one was 40",
        ),
        ([Start(), again(20, 30)], False, "went on from step 30, and the newest complete one was 20"),
        ([Start(), again(20, None)], False, "it began anew, and step 20 was complete"),
        ([Start(), again(None, None)], None, "no checkpoint was complete"),
        ([Start()], None, "it was never started again"),
        ([Start(), CUT, again(0, 1, seen=False)], True, "from step 1"),
        ([Start(), again(0, 0, cut=True), again(1, 2, seen=False)], True, "from step 0, 2"),
        ([Start(), again(0, 0, cut=True), again(2, 1, seen=False)], False, "newest complete one was 2"),
        ([Start(), again(0, None, {0: 1.0}, cut=True)], False, "it began anew, and step 0 was complete"),
        ([Start(), CUT], None, "it never said from where"),
        ([Start(cut=True), again(None, None, {0: 1.0}, seen=False), again(0, 0)], True, "from step 0"),
        ([], None, "it was never started again"),
    ],
)
def test_where_it_went_on(starts: list[Start], passed: bool | None, told: str) -> None:
    found = went_on([starts])
    assert (found.passed, told in found.told) == (passed, True), found
    if passed:
        assert went_on([starts, [Start(), again(5, 4)]]).passed is False, "each repeat has to"


FIRST = Start(losses={0: 3.0, 1: 2.5, 2: 2.25})


@pytest.mark.parametrize(
    ("losses", "known", "tolerance", "passed", "told"),
    [
        ({2: 2.25, 3: 2.0}, {}, 0.0, True, "1 step equal to the bit"),
        ({2: 2.25, 3: 2.0}, {2: 2.25, 3: 2.0}, 0.0, True, "2 steps equal to the bit"),
        (
            {2: 2.25, 3: 2.0},
            {3: 2.0000000000000004},
            0.0,
            False,
            "step 3: 2.0, and 2.0000000000000004 without",
        ),
        ({2: 2.25, 3: 2.0}, {3: 2.0000000000000004}, 1e-6, True, "2 steps equal within 0.0001 %"),
        ({2: 3.0}, {}, 0.1, False, "step 2: 3.0, and 2.25 without the stop"),
        ({3: 2.0}, {}, 0.0, None, "no step after a restart"),
        ({}, {}, 0.0, None, "no step after a restart"),
        ({1: 2.5, 2: 2.25}, {}, 0.0, False, "says to go on from step 1, and did step 1 again"),
        ({2: math.nan}, {}, 0.0, False, "step 2: the loss is nan, which proves nothing"),
        ({3: math.inf}, {3: math.inf}, 0.0, False, "step 3: the loss is inf"),
        ({3: math.inf}, {3: math.inf}, 0.1, False, "step 3: the loss is inf"),
        ({2: 2.25}, {9: math.nan}, 0.0, False, "step 9: the loss is nan"),
    ],
)
def test_how_losses_go_on(
    losses: Mapping[int, float], known: Mapping[int, float], tolerance: float, passed: bool | None, told: str
) -> None:
    found = losses_go_on([[FIRST, again(1, 1, losses)]], known, tolerance)
    assert (found.passed, told in found.told) == (passed, True), found


def test_losses_of_one_repeat_are_not_those_of_another() -> None:
    assert losses_go_on([[Start(), again(1, 1)]], {1: 2.5}).told == "no run told a loss"
    assert losses_go_on([[FIRST], [Start(), again(1, 1, {2: 2.25})]]).passed is None
