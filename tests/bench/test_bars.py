"""The statistics of the benches, and their tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.bench.__main__ import DOCUMENT, NAMES, put_in
from tests.bench.bars import bar, interval, table
from tests.bench.pace import rounds


def test_a_ratio_holds_or_not() -> None:
    assert bar("x", [1.0, 1.1, 0.9], [2.0, 2.0, 2.0], at_most=0.5).holds
    assert not bar("x", [1.0, 1.1, 0.9], [2.0, 2.0, 2.0], at_most=0.49).holds
    assert bar("x", [3.0], [2.0], at_most=1.0, allowance=1.0).holds


def test_what_need_not_hold_is_told_only() -> None:
    told = bar("x", [3.0], [2.0], at_most=math.inf)
    assert told.holds and told.cells[-2:] == ("none", "told")


def test_what_must_only_be_large_holds_or_not() -> None:
    found = [bar("x", [ours], [1.0], at_least=0.9, at_most=math.inf).cells[-2:] for ours in (0.95, 0.85)]
    assert found == [("≥ 0.90", "holds"), ("≥ 0.90", "MISSED")]


def test_an_interval_that_reaches_out_does_not_hold_where_all_of_it_must_lie_within() -> None:
    ours, theirs = [0.8, 0.8, 0.8, 1.0, 1.0, 1.0, 1.0, 1.2, 1.2, 1.2], [1.0] * 10
    assert bar("x", ours, theirs, at_least=0.9, at_most=1.1).holds
    assert not bar("x", ours, theirs, at_least=0.9, at_most=1.1, whole_interval=True).holds


def test_rounds_of_one_pair_of_processes_do_not_make_a_result_sure() -> None:
    """Five pairs that differ, with rounds that do not: as unsure as five values, not as sure as fifty."""
    random = np.random.default_rng(1)
    of_pair = [0.8, 0.9, 1.0, 1.1, 1.2]
    ratios = np.concatenate([middle + random.normal(0, 0.001, 10) for middle in of_pair])
    low, high = interval(ratios, 5)
    alone_low, alone_high = interval(ratios)
    assert high - low > 0.3
    assert high - low >= alone_high - alone_low


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(2)
    held = 0
    for _ in range(60):
        low, high = interval(random.normal(1.0, 0.1, 12))
        held += low <= 1.0 <= high
    assert held >= 52


@pytest.mark.parametrize(("each_s", "played"), [(1.0, 10), (15.0, 6), (1000.0, 4)])
def test_rounds_are_played_as_time_allows(each_s: float, played: int) -> None:
    numbers: list[int] = []
    for number in rounds("x", 4, 10, 100.0, clock=lambda: each_s * len(numbers)):
        numbers.append(number)
    assert numbers == list(range(played))


def test_the_table_says_what_missed() -> None:
    bars = [bar("quick", [0.1], [1.0], at_most=0.4), bar("slow", [0.2], [0.1], at_most=1.0, unit="ms")]
    lines = table(bars).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "holds" in lines[2] and "MISSED" in lines[3] and "200.0 ms" in lines[3]


def test_a_block_is_put_where_the_document_has_a_place_for_it(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("one\n<!-- bench runtime -->\nold\n<!-- end of bench runtime -->\ntwo\n")
    put_in(file, "runtime", "new")
    put_in(file, "runtime", "newer")
    assert file.read_text() == "one\n<!-- bench runtime -->\n\nnewer\n\n<!-- end of bench runtime -->\ntwo\n"
    with pytest.raises(RuntimeError, match="no place for the bench overhead"):
        put_in(file, "overhead", "new")


def test_the_page_on_performance_has_a_place_for_every_bench() -> None:
    for name in NAMES:
        text = DOCUMENT.read_text()
        assert f"<!-- bench {name} -->" in text and f"<!-- end of bench {name} -->" in text
