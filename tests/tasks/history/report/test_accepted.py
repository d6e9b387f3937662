"""The page of an acceptance says what was found, draws every value, and escapes what others named."""

from __future__ import annotations

import re

import pytest

from tasks.history.acceptance import Acceptance, Check, Trial, accept
from tasks.history.report.accepted import answer, render_accepted
from tests.tasks.history.test_acceptance import NO, OPEN, STEADY, YES, of_the_facts, times, trial


@pytest.mark.parametrize(
    ("found", "mood", "told"),
    [
        (accept([trial("none"), trial("proxy", STEADY, STEADY, YES)]), "good", "proxy: 1 variant accepted."),
        (accept([trial("none")]), "good", "none: 1 variant accepted."),
        (
            accept([trial("none"), trial("<slow>", times(1.2))]),
            "bad",
            "<slow> is refused: a save takes 20 % more.",
        ),
        (accept([trial("none", STEADY, STEADY, NO)]), "bad", "none is refused: False: told."),
        (
            accept([trial("none"), trial("proxy", STEADY, STEADY, OPEN)]),
            "calm",
            "Of proxy it cannot be told: None: told.",
        ),
        (of_the_facts(), "calm", "Of with it cannot be told: save: +15 % by the medians;"),
        (
            accept([Trial("none", [])]),
            "calm",
            "Of none it cannot be told: no save and no restore was measured.",
        ),
    ],
)
def test_what_is_told(found: Acceptance, mood: str, told: str) -> None:
    page = render_accepted(found, "encrypted checkpoints", [("bucket", "<b>")])
    assert answer(found).startswith(told)
    assert f'class="answer {mood}"' in page
    values = [value for one in found.variants for times in one.times.values() for value in times.values]
    assert len(re.findall(r"<title>no\. \d+: ", page)) == len(values)
    assert "<slow>" not in page and "<dd><b></dd>" not in page and "&lt;b&gt;" in page


def test_an_outlier_does_not_squeeze_the_rest() -> None:
    page = render_accepted(of_the_facts(), "t")
    assert '<path class="dot save hollow"' in page, "it stands at the edge of the axis"
    places = [float(x) for x in re.findall(r'<circle class="dot save" cx="([\d.]+)"', page)]
    assert max(places) - min(places) > 300


def test_whether_it_was_proved_stands_before_what_was_seen() -> None:
    said = Check("the loss goes on", False, "step 12: 2.5, not 2.25; " * 9)
    page = render_accepted(accept([trial("none", STEADY, STEADY, said)]), "t")
    assert re.search(r'<td[^>]* class="words"><span class="chip bad">no</span><small>step 12', page)


def test_what_lies_in_the_bucket() -> None:
    page = render_accepted(accept([trial("none"), trial("proxy")]), "t")
    assert page.count("289") == page.count("288–290") == 2 and "+0.0 %" in page
