"""`repeats` of a suite, and how well a median is known."""

from __future__ import annotations

import math

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.repeats import Adaptive, counted_operations, widest
from runtime.contract.suite_reader import read_suite

SUITE = """
suite_name: s
{}
benchmarks:
  - generator: my.Own
    options: {{}}
"""


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("num_repeats: 5", None),
        ("repeats: {max: 30}", Adaptive(6, 30)),
        ("num_repeats: 8\nrepeats: {max: 30, until: 1.5%}", Adaptive(8, 30, 0.015)),
        ("repeats: {min: 3, max: 3, until: 0.1, time_s: 60}", Adaptive(3, 3, 0.1, 60.0)),
        ('repeats: {max: 9, until: "2 %"}', Adaptive(6, 9, 0.02)),
    ],
)
def test_how_often_is_read(keys: str, expected: Adaptive | None) -> None:
    suite = read_suite(SUITE.format(keys), "s.yaml")
    assert suite.adaptive == expected
    assert suite.num_repeats == (expected.most if expected else 5)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("repeats: 5", "repeats must be"),
        ("repeats: {until: 2%}", "repeats has no max"),
        ("num_repeats: 6\nrepeats: {min: 5, max: 9}", "num_repeats and repeats.min are both given"),
        ("repeats: {min: 7, max: 6}", "at most 6 and at least 7"),
        ("num_repeats: 7\nrepeats: {max: 6}", "at most 6 and at least 7"),
        ("repeats: {max: 9, until: 2}", "until must be how far"),
        ("repeats: {max: 9, until: 0%}", "until must be how far"),
        ("repeats: {max: 9, until: soon}", "until must be how far"),
        ("repeats: {max: 9, limit: 3}", "unknown key 'limit' in repeats"),
        ("repeats: {max: 0}", "max must be an integer of at least 1"),
        ("repeats: {max: 9, time_s: -1}", "time_s must be a positive number"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_suite(SUITE.format(keys), "s.yaml")


def test_it_is_told_in_words() -> None:
    assert Adaptive(6, 30, 0.025, 90).words == "6 to 30 repeats, until ± 2.5 %, for at most 90 s"


@pytest.mark.parametrize(
    ("values", "reach"),
    [
        ([], math.inf),
        ([1.0] * 5, math.inf),  # of five no interval reaches 95 %
        ([1.0] * 6, 0.0),
        ([98, 99, 100, 100, 101, 102], 0.02),
        ([90, 99, 99, 100, 100, 101, 101, 101, 140], 0.01),  # of nine the second from either end
        ([0.0] * 6, math.inf),
    ],
)
def test_a_median_is_known_as_far_as_its_interval_reaches(values: list[float], reach: float) -> None:
    assert widest({"save": values}) == ("save", pytest.approx(reach))


def test_the_operation_that_is_known_least_counts() -> None:
    assert widest({"a": [1.0] * 6, "b": [1.0, 2, 2, 2, 2, 3], "c": [5.0] * 6}) == ("b", pytest.approx(0.5))
    assert widest({}) == ("", math.inf)


def test_of_a_benchmark_of_ours_what_people_know_it_by_counts() -> None:
    told = ["save", "merge_ocdbt", "deserialize"]
    assert counted_operations(told, native=True) == ["save", "deserialize"]
    assert counted_operations(told, native=False) == told
    assert counted_operations(["train_step"], native=True) == ["train_step"], "else nothing would"
