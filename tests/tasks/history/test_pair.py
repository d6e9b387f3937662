"""Two runs are compared repeat against repeat, or it is said why they cannot be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tasks.history.comparison import SeriesKey
from tasks.history.measurement import Measurement
from tasks.history.pair import Comparison, compared, incomparable
from tasks.history.results import AttemptEnd, PointOutcome, Results

KEY = ("key", "save", "time_s")


def results(run_id: str, *measured: Measurement, **changed: Any) -> Results:
    point = PointOutcome(0, "tiny", "key", "x.SaveBenchmark", "native", "passed", attempt=1, options={"a": 1})
    made = Results(
        run_id=run_id,
        suite="s",
        target="local",
        workers=1,
        points=[point],
        fingerprint={"platform": "cpu"},
        manifest={"versions": {"jax": "1"}, "source": {"ref": "released"}},
        asked_at=1.0,
        measurements=measured,
    )
    return dataclasses.replace(made, **changed)


def measured(values: Sequence[float], metric: str = "time_s", unit: str = "s", **changed: Any) -> Measurement:
    count = len(values)
    made = Measurement(
        point=0,
        benchmark="tiny",
        benchmark_key="key",
        operation="save",
        metric=metric,
        unit=unit,
        repeats=np.arange(count),
        warmup=np.zeros(count, dtype=np.bool_),
        workers=np.asarray([0]),
        values=np.asarray(values, dtype=np.float64)[:, None],
    )
    return dataclasses.replace(made, **changed)


def pair(
    here: Sequence[float], there: Sequence[float], usual: Mapping[SeriesKey, float] | None = None
) -> Comparison:
    return compared(results("a", measured(here)), results("b", measured(there)), usual or {})


FAST, SLOW = (1.00, 1.01, 0.99, 1.02, 1.0), (1.20, 1.21, 1.19, 1.22, 1.2)


@pytest.mark.parametrize(
    ("here", "there", "usual", "word", "larger"),
    [
        (SLOW, FAST, None, "slower", 1.0),
        (FAST, SLOW, None, "faster", 0.0),
        (FAST, FAST, None, "no difference", 0.5),
        (SLOW, FAST, 0.3, "as runs differ", 1.0),
        (SLOW, FAST, 0.1, "slower", 1.0),
        (FAST, SLOW, 0.1, "faster", 0.0),
        ((1.2,), FAST, None, "cannot tell", 1.0),
        ((0.0, 0.0), FAST, None, "cannot tell", 0.0),
        ((1.0, 1.0, 1.0), (1.0, 1.0), None, "no difference", 0.5),
    ],
)
def test_what_can_be_said(
    here: Sequence[float], there: Sequence[float], usual: float | None, word: str, larger: float
) -> None:
    (one,) = pair(here, there, {} if usual is None else {KEY: usual}).pairs
    assert (one.word, one.larger, one.usual) == (word, larger, usual)
    assert (list(one.here), list(one.there)) == (list(here), list(there))


def test_repeats_that_scatter_hide_no_difference_that_nearly_all_pairs_show() -> None:
    """By the scatter of the medians the change lies between −84 and +146 %."""
    there = (1.00, 1.02, 0.98, 1.05, 0.97, 1.01)
    (one,) = pair((0.30, 0.33, 0.36, 0.90, 0.93, 0.975), there).pairs
    assert one.larger == pytest.approx(1 / 36) and one.word == "faster"
    assert one.effect and one.effect.low is not None and one.effect.high is not None
    assert one.effect.low < one.effect.effect < one.effect.high < 0
    assert one.effect.effect == pytest.approx(-0.436, abs=0.001)


def test_with_three_repeats_each_the_scatter_tells() -> None:
    (one,) = pair(SLOW[:3], FAST[:3]).pairs
    assert one.word == "slower" and one.effect and one.effect.effect == pytest.approx(0.2)


def test_little_memory_is_no_difference() -> None:
    metric = "peak_rss_over_start_bytes"
    one = compared(
        results("a", measured([0.0, 5.0], metric, "bytes")),
        results("b", measured([900.0, 1e5], metric, "bytes")),
        {},
    )
    assert one.pairs[0].word == "no difference"


def test_values_that_are_no_numbers_do_not_count() -> None:
    assert list(pair([1.0, float("nan"), float("inf")], FAST).pairs[0].here) == [1.0]
    found = pair([float("nan")], FAST)
    assert found.pairs == [] and "has no value that counts in one of them" in found.left_out[0]


def test_what_is_in_one_of_them_only_or_in_another_unit_is_left_out() -> None:
    here = results("a", measured(FAST), measured(FAST, operation="restore"), measured(FAST, operation="load"))
    there = results("b", measured(FAST), measured(FAST, operation="load", unit="bytes"))
    found = compared(here, there, {})
    assert [one.operation for one in found.pairs] == ["save"]
    assert found.left_out == [
        "Save: restore time_s was measured in one of them only",
        "Save: load time_s is in s here and in bytes there",
    ]


def test_what_did_not_pass_is_left_out_with_its_reason() -> None:
    good = results("a", measured(FAST))
    failed = dataclasses.replace(good.points[0], status="failed")
    for other, why in (
        (results("b", points=[failed]), "Save: failed in b"),
        (
            results("b", measured(SLOW), attempts=[AttemptEnd(1, "preempted")]),
            "Save: its attempt was preempted in b",
        ),
    ):
        assert compared(good, other, {}).left_out == [why]
    more = dataclasses.replace(good.points[0], point=1, benchmark_key="other", options={"a": 2})
    both = results("c", measured(FAST), points=[*good.points, more])
    assert compared(good, both, {}).left_out == ["a=2: not in a"]
    assert compared(both, good, {}).left_out == ["a=2: not in a"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"run_id": "a"}, "they are one and the same run"),
        ({"fingerprint": {"platform": "tpu"}}, "they ran on different machines: platform tpu instead of cpu"),
        ({"points": []}, "they have no benchmark in common with the same options, mesh and checkpoint"),
    ],
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, Any], why: str) -> None:
    assert incomparable(results("a"), dataclasses.replace(results("b"), **changed)) == why


def test_of_runs_without_a_common_benchmark_it_is_said_how_the_nearest_differ() -> None:
    here = results("a")
    for changed, what in (({"options": {"a": 2, "b": 1}}, "a, b"), ({"mesh": {"x": 1}}, "mesh"), ({}, "")):
        other = dataclasses.replace(here.points[0], benchmark_key="other", **changed)
        told = incomparable(here, results("b", points=[other])) or ""
        assert told.partition(": ")[2] == (f"they differ in {what}" if what else "")


def test_the_versions_that_differ_are_told() -> None:
    newer = {"versions": {"jax": "2", "numpy": "3"}, "source": {"commit": "abc"}}
    found = compared(results("a", manifest=newer), results("b"), {})
    assert found.versions == {"commit": ("–", "abc"), "jax": ("1", "2"), "numpy": ("–", "3")}
