"""The page of two runs says what differs, draws every repeat of both, and leaves nothing out in silence."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tasks.history.pair import Comparison
from tasks.history.report.compared import MOST_DRAWN, answer, render_compared
from tests.tasks.history.test_pair import FAST, SLOW, pair


@pytest.mark.parametrize(
    ("found", "mood", "told"),
    [
        (pair(SLOW, FAST), "bad", "Of 1 series, a is slower in 1."),
        (pair(FAST, SLOW), "good", "Of 1 series, a is faster in 1."),
        (pair(FAST, FAST), "calm", "None of 1 series differs beyond what repeats and runs differ by."),
        (pair(SLOW, FAST, {("key", "save", "time_s"): 0.5}), "calm", "None of 1 series differs"),
        (pair([1.0], [2.0]), "calm", "Of 1 series nothing can be told: there are too few repeats."),
        (
            Comparison("a", "b", [], ["tiny: not in b"], {"jax": ("1", "<2>")}),
            "calm",
            "Nothing of them could",
        ),
    ],
)
def test_what_is_told(found: Comparison, mood: str, told: str) -> None:
    page = render_compared(found, "noise is not known")
    assert answer(found).startswith(told) and told in page
    assert f'class="answer {mood}"' in page
    assert len(re.findall(r"<title>repeat \d+: ", page)) == sum(
        len(one.here) + len(one.there) for one in found.pairs
    )
    assert ("noise is not known" in page) == any(one.usual is None for one in found.pairs)
    assert all(reason in page for reason in found.left_out)
    assert "<2>" not in page and ("&lt;2&gt;" in page) == bool(found.versions)


def test_of_very_many_series_those_that_differ_are_drawn() -> None:
    (slow,), (same,) = pair(SLOW, FAST).pairs, pair(FAST, FAST).pairs
    many = [dataclasses.replace(same, label=f"same {n}") for n in range(MOST_DRAWN)]
    last = dataclasses.replace(slow, label="slow")
    page = render_compared(Comparison("a", "b", [*many, last], [], {}), "")
    assert page.index("slow: save <span") < page.index("same 0: save <span")
    assert "1 more are in the table" in page and page.count("<article>") == MOST_DRAWN
