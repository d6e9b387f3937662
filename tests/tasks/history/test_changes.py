"""A change reads as a person would say it, and an interval that says nothing says so."""

from __future__ import annotations

import dataclasses

import pytest

from tasks.history.changes import change, interval, is_bounded, ratio
from tasks.history.effect import Effect

EFFECT = Effect(0.12, -0.2, 0.3, "run to run", None, 1.12, 1.0, 3)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.031, "+3.1 %"),
        (-0.12, "−12 %"),
        (8.5, "+850 %"),
        (11.3, "× 12.3"),
        (130.0, "× 131"),
        (-0.992, "÷ 125"),
        (-1.0, "−100 %"),
    ],
)
def test_ratios(fraction: float, text: str) -> None:
    assert ratio(fraction) == text


def test_an_interval_is_told_where_it_says_something() -> None:
    assert (change(EFFECT), interval(EFFECT)) == ("+12 %", "−20 % … +30 %")
    much = dataclasses.replace(EFFECT, effect=12.0, low=8.0, high=17.0)
    assert (change(much), interval(much)) == ("× 13.0", "+800 % … × 18.0")


def test_an_interval_that_reaches_beyond_ten_times_is_unbounded() -> None:
    far = dataclasses.replace(EFFECT, low=-0.99, high=130.0)
    assert (is_bounded(far), interval(far)) == (False, "unbounded")


def test_without_two_values_there_is_no_interval() -> None:
    one = dataclasses.replace(EFFECT, low=None, high=None)
    assert (is_bounded(one), interval(one)) == (False, "")
