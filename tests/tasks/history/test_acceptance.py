"""An acceptance judges by medians with an exact interval: an outlier makes neither side look faster."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence

import pytest

from tasks.history.acceptance import Acceptance, Check, Start, Stored, Trial, accept
from tasks.history.acceptance_cost import _arrangements, ratio_interval, times_of
from tasks.history.acceptance_words import figures, lines, rows, stored

STEADY = (10.0, 10.1, 9.9, 10.05, 9.95, 10.02)


def trial(
    variant: str, saves: Sequence[float] = STEADY, restores: Sequence[float] = STEADY, *checks: Check
) -> Trial:
    starts = [Start(tuple(saves[:2])), Start(tuple(saves[2:]), tuple(restores), newest=3, resumed=3)]
    return Trial(variant, [starts], [Stored(0, 288, 2**30), Stored(3, 290, 2**30)], checks)


def of_the_facts() -> Acceptance:
    """go-gcsproxy's two acceptance logs, as facts have them."""
    without = Trial("without", [[Start((150.95, 49.54, 50.44), (33.40,))]])
    return accept([without, Trial("with", [[Start((57.11, 58.69, 58.14), (38.97,))]])])


def test_means_would_call_the_slower_one_faster() -> None:
    without, proxy = of_the_facts().variants
    here, there = proxy.times["save"], without.times["save"]
    assert sum(here.values) / 3 < sum(there.values) / 3, "what a mean says"
    assert (here.median, here.outliers, here.n) == (58.14, [], 3)
    assert (there.median, there.outliers, there.n) == (50.44, [0], 3)
    assert (there.low, there.high) == (49.54, 50.44), "the spread leaves the outlier out"
    assert proxy.costs["save"].effect == pytest.approx(0.1527, abs=1e-4)
    assert proxy.costs["restore"].effect == pytest.approx(0.1668, abs=1e-4)
    assert proxy.verdict == "cannot tell", "three saves and one restore prove nothing"


def test_of_few_two_may_be_alike_by_chance() -> None:
    few, more = times_of((1.35, 1.35, 0.945)), times_of((1.35, 1.35, 1.36, 1.34, 0.945))
    assert few is not None and few.outliers == []
    assert more is not None and more.outliers == [4]


def test_what_is_told_of_the_facts() -> None:
    found = of_the_facts()
    assert rows(found) == [
        ("without", "save", "3", "50.4 s", "49.5–50.4 s", "2 min 30 s (no. 1)", "–", "–", "base"),
        ("without", "restore", "1", "33.4 s", "–", "–", "–", "–", "base"),
        (
            "with",
            "save",
            "3",
            "58.1 s",
            "57.1–58.7 s",
            "–",
            "+15 %",
            "−62 % … +18 % (90 % sure)",
            "cannot tell",
        ),
        ("with", "restore", "1", "39.0 s", "–", "–", "+17 %", "–", "cannot tell"),
    ]
    assert lines(found)[-1] == "verdict: cannot tell (limit: 5.0 % more than without)"


def times(factor: float) -> list[float]:
    return [factor * value for value in STEADY]


@pytest.mark.parametrize(
    ("saves", "restores", "limit", "verdict", "reason"),
    [
        (times(1.0), times(1.0), 0.05, "accepted", "it costs no more than it may"),
        (times(1.02), times(0.5), 0.05, "accepted", "it costs no more than it may"),
        (times(1.2), times(1.0), 0.05, "refused", "a save takes 20 % more"),
        (times(1.2), times(1.3), 0.25, "refused", "a restore takes 30 % more"),
        (times(1.05), times(1.0), 0.05, "cannot tell", "save: +5.0 %, from"),
        (times(1.0), [], 0.05, "cannot tell", "restore: none was measured here"),
        (times(1.0), [9.9, 10.0], 0.05, "cannot tell", "2 here and 6 there are too few"),
        ([0.0, *STEADY], times(1.0), 0.05, "cannot tell", "save: some took no time at all"),
    ],
)
def test_the_limit(
    saves: Sequence[float], restores: Sequence[float], limit: float, verdict: str, reason: str
) -> None:
    base, other = accept([trial("none"), trial("proxy", saves, restores)], limit=limit).variants
    assert (base.verdict, base.costs) == ("accepted", {})
    assert other.verdict == verdict
    assert reason in other.reason


YES, NO, OPEN = (Check(str(passed), passed, "told") for passed in (True, False, None))


@pytest.mark.parametrize(
    ("checks", "saves", "verdict"),
    [
        ([YES], STEADY, "accepted"),
        ([YES, OPEN, NO], STEADY, "refused"),
        ([YES, OPEN], STEADY, "cannot tell"),
        ([OPEN], times(2.0), "refused"),
    ],
)
def test_what_is_not_proved_is_not_accepted(
    checks: Sequence[Check], saves: Sequence[float], verdict: str
) -> None:
    found = accept([trial("none"), trial("proxy", saves, STEADY, *checks)])
    assert (found.variants[1].verdict, found.verdict) == (verdict, verdict)


def test_the_base_is_held_to_what_it_has_to_prove_and_comes_first() -> None:
    found = accept([trial("proxy"), trial("none", STEADY, STEADY, NO)], base="none")
    assert [one.variant for one in found.variants] == ["none", "proxy"]
    assert found.verdict == "refused"
    with pytest.raises(ValueError, match="no variant is named other"):
        accept([trial("none")], base="other")


def test_one_that_is_far_off_moves_neither_verdict_nor_interval_much() -> None:
    """Seven of each are enough for that; variances would leave it without a bound."""
    many = [10.0 + n / 100 for n in range(8)]
    spoilt = [30.0, *many[1:]]
    one = accept([trial("none", spoilt), trial("proxy", many)]).variants[1].costs["save"]
    assert one.standing == "within" and one.interval is not None
    assert one.interval.low > -0.02


@pytest.mark.parametrize(
    ("values", "outliers"),
    [
        ((1.0, 1.01, 0.99, 5.0), [3]),
        ((1.0, 1.01, 0.99, 0.1), [3]),
        ((1.0, 1.0001, 0.9999, 1.05), []),
        ((1.0, 1.0, 1.0, 1.0, 1.3), [4]),
        ((1.52, 1.57, 0.705), []),
        ((50.44, 49.54, 125.0), []),
        ((50.44, 49.54, 150.95), [2]),
        ((1.0, 9.0), []),
        ((1.0, 2.0, 3.0, 4.0), []),
    ],
)
def test_outliers(values: Sequence[float], outliers: list[int]) -> None:
    found = times_of(values)
    assert found is not None and found.outliers == outliers


def test_orders_are_counted_as_they_are() -> None:
    for n, k in ((1, 1), (2, 3), (3, 4)):
        counts = [0] * (n * k + 1)
        for places in itertools.combinations(range(n + k), n):
            counts[sum(places) - n * (n - 1) // 2] += 1
        assert _arrangements(n, k) == counts


@pytest.mark.parametrize(("n", "k", "sure"), [(1, 5, None), (2, 2, 2 / 3), (3, 3, 0.9), (4, 4, 34 / 35)])
def test_how_sure_few_values_are(n: int, k: int, sure: float | None) -> None:
    found = ratio_interval([1.0 + place for place in range(n)], [2.0 + place for place in range(k)])
    assert (found.confidence if found else None) == pytest.approx(sure)


@pytest.mark.parametrize(("n", "k", "draws"), [(5, 7, 400), (51, 51, 100)])
def test_the_interval_holds_the_truth_as_often_as_it_says(n: int, k: int, draws: int) -> None:
    """Of values that are far off now and then, too: draws, 2.3 deviations of them less than 95 %."""
    draw = random.Random(7)

    def value(level: float) -> float:
        return level * (draw.lognormvariate(0, 0.1) if draw.random() < 0.9 else 3)

    held = 0
    for _ in range(draws):
        found = ratio_interval([value(1.1) for _ in range(n)], [value(1.0) for _ in range(k)])
        assert found is not None
        held += found.low <= 0.1 <= found.high
    assert held >= draws * (0.95 - 2.3 * (0.95 * 0.05 / draws) ** 0.5)


def test_the_numbers_for_programs() -> None:
    found = figures(accept([trial("none"), trial("proxy", times(1.2), STEADY, YES)]))
    assert json.loads(json.dumps(found)) == found
    save = found["variants"][1]["operations"][0]
    assert (save["operation"], save["standing"], found["verdict"]) == ("save", "over", "refused")
    assert save["cost"] == pytest.approx(0.2) and save["cost_low"] < 0.2 < save["cost_high"]
    assert (found["variants"][0]["objects"], found["variants"][0]["stored_bytes"]) == (289, 2**30)
    assert found["variants"][0]["stored"] == [
        {"step": 0, "objects": 288, "bytes": 2**30},
        {"step": 3, "objects": 290, "bytes": 2**30},
    ]


def test_what_stands_below_the_table() -> None:
    told = lines(accept([trial("none"), trial("proxy", STEADY, STEADY, YES, NO)]))
    assert told[:4] == [
        "none: 2 checkpoints of 289 objects (288–290), 1.00 GiB (medians)",
        "proxy: 2 checkpoints of 289 objects (288–290), 1.00 GiB (medians)",
        "proxy: True: yes (told)",
        "proxy: False: NO (told)",
    ]
    assert told[-1] == "verdict: refused (limit: 5.0 % more than none)"


@pytest.mark.parametrize(
    ("lies", "told"),
    [
        ([Stored(0, 4, 2048)], "1 checkpoint of 4 objects, 2.00 KiB (medians)"),
        ([Stored(0, 4, 2048), Stored(9, 4, 2048)], "2 checkpoints of 4 objects, 2.00 KiB (medians)"),
        (
            [Stored(0, 4, 1024), Stored(9, 4, 2048), Stored(18, 4, 4096)],
            "3 checkpoints of 4 objects, 2.00 KiB (1.00–4.00 KiB) (medians)",
        ),
        ([], "not known"),
    ],
)
def test_what_a_checkpoint_takes_and_how_much_that_differs(lies: Sequence[Stored], told: str) -> None:
    (one,) = accept([Trial("v", [], lies)]).variants
    assert stored(one) == told
