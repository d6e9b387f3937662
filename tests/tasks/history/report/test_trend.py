"""The drawing of a series shows each night in its place, spikes at the edge, words apart; nothing is markup."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from tasks.history.intervals import Interval
from tasks.history.report.chart import LETTER, WIDTH
from tasks.history.report.series_page import Change, SeriesPage, render_series
from tasks.history.report.site_page import Entry, Section, render_site
from tasks.history.report.spark import HEIGHT, spark
from tasks.history.report.trend import trend_chart
from tasks.history.report.trend_model import Judged, Run, Trend, TrendChart
from tasks.history.verdict import Verdict

NIGHTS = [f"2026-11-{n:02d}" for n in range(1, 31)]
HOSTILE = "<script>alert('x')</script>"


def trend(
    values: Sequence[float] = (1.0, 1.01, 0.99) * 10, judged: Sequence[Judged] = (), **changed: object
) -> Trend:
    runs = [Run(night, value, None, f"run-{night}") for night, value in zip(NIGHTS, values, strict=False)]
    made: dict[str, object] = {"runs": runs, "nights": NIGHTS, "judged": judged} | changed
    return Trend(label="save", unit="s", kind="save", **made)  # type: ignore[arg-type]


def drawn(told: Trend) -> TrendChart:
    chart = trend_chart(told)
    assert chart is not None
    return chart


def test_each_night_has_a_column_of_its_own_from_left_to_right() -> None:
    chart = drawn(trend())
    places = [spot.x for spot in chart.spots]
    assert places == sorted(set(places))
    assert chart.left < places[0] and places[-1] < chart.right
    assert all(chart.top <= spot.y <= chart.bottom for spot in chart.spots)


def test_what_is_larger_stands_higher() -> None:
    chart = drawn(trend([1.0, 1.1, 1.2]))
    heights = [spot.y for spot in chart.spots]
    assert heights == sorted(heights, reverse=True)


def test_a_spike_stands_at_the_edge_and_leaves_the_others_their_room() -> None:
    chart = drawn(trend([*(1.0, 1.01, 0.99) * 9, 9.0, 1.0, 0.001]))
    assert [spot.edge for spot in chart.spots][-3:] == ["up", "", "down"]
    assert chart.axis.high < 1.5


def test_both_runs_of_the_latest_night_are_on_the_axis_beside_each_other() -> None:
    steady = [Run(night, 1.0 + 0.01 * (n % 3), None, night) for n, night in enumerate(NIGHTS[:-1])]
    night = [
        Run(NIGHTS[-1], 1.6, None, "first", settled=False),
        Run(NIGHTS[-1], 1.3, None, "b"),
    ]
    chart = drawn(trend(runs=[*steady, *night]))
    first, second = chart.spots[-2:]
    assert (first.edge, second.edge) == ("", "") and first.x < second.x <= chart.right


def test_a_run_at_the_edge_has_its_value_beside_it_also_where_it_is_the_first_or_there_are_two() -> None:
    values = [9.0, *(1.0, 1.01, 0.99) * 9, 0.1, 1.0]
    runs = [Run(night, value, None, night) for night, value in zip(NIGHTS, values, strict=False)]
    chart = drawn(trend(runs=[*runs, Run(NIGHTS[-1], 8.0, None, "x"), Run(NIGHTS[-1], 7.0, None, "y")]))
    told = {spot.value.text: spot for spot in chart.spots if spot.value}
    assert list(told) == ["9.00 s", "100 ms", "8.00 s", "7.00 s"]
    for spot in told.values():
        assert spot.value and spot.value.x - LETTER * 3 > 0 and spot.value.x + LETTER * 3 < WIDTH
        assert chart.top <= spot.value.y <= chart.bottom + 4
    assert told["8.00 s"].value.y != told["7.00 s"].value.y  # type: ignore[union-attr]
    page = SeriesPage("1", ("a",), "m", "t", Verdict.PASS, "", trend(runs=runs))
    assert "further off than the drawing reaches, with its value" in render_series(page)


def test_values_that_never_move_do_not_fill_the_axis() -> None:
    chart = drawn(trend([1.0, 1.0001, 0.9999]))
    assert chart.axis.high - chart.axis.low > 0.03


@pytest.mark.parametrize("value", [0.0, 1e-9, 3e9])
def test_a_single_value_is_drawn(value: float) -> None:
    (spot,) = drawn(trend([value])).spots
    assert not spot.edge


def test_without_a_value_there_is_no_drawing() -> None:
    assert trend_chart(trend([])) is None


def test_what_does_not_count_is_seen_and_moves_no_axis() -> None:
    aside = Run(NIGHTS[3], 5.0, None, "odd", aside="excluded by me")
    chart = drawn(trend(runs=[Run(NIGHTS[2], 1.0, None, "fine"), aside]))
    assert [spot.look for spot in chart.spots] == ["counts", "aside"]
    assert "excluded by me" in chart.spots[1].title
    assert chart.axis.high < 2


def test_an_interval_is_told_and_drawn_around_its_run() -> None:
    (spot,) = drawn(trend(runs=[Run(NIGHTS[0], 1.0, Interval(0.99, 1.01, 0.9375), "a")])).spots
    assert spot.low and spot.high and spot.low > spot.y > spot.high
    assert "990 ms to 1.01 s (93.8 %)" in spot.title


def test_alerts_reach_from_their_night_to_the_recovery() -> None:
    judged = [Judged(night, 1.0, in_alert=5 <= n < 9 or n >= 28) for n, night in enumerate(NIGHTS)]
    chart = drawn(trend(judged=judged))
    places = {night: spot.x for night, spot in zip(NIGHTS, chart.spots, strict=True)}
    first, last = chart.alerts
    assert (first.x1, first.x2) == (places[NIGHTS[5]], places[NIGHTS[9]])
    assert last.x2 == places[NIGHTS[29]]


def test_words_of_changes_do_not_overlap() -> None:
    judged = [Judged(night, 1.0, "regressed" if n % 2 else "recovered") for n, night in enumerate(NIGHTS)]
    marks = drawn(trend(judged=judged)).changes
    assert len(marks) == len(NIGHTS)
    boxes = [
        (mark.y, mark.x - (1 if mark.anchor == "end" else 0.5) * LETTER * len(mark.text), mark)
        for mark in marks
        if mark.text
    ]
    for _, line in itertools.groupby(sorted(boxes, key=lambda box: box[:2]), key=lambda box: box[0]):
        for (_, x, mark), (_, following, _) in itertools.pairwise(line):
            assert x + LETTER * len(mark.text) <= following
    assert all(x + LETTER * len(mark.text) <= WIDTH for _, x, mark in boxes)


def test_other_versions_are_marked_where_they_begin() -> None:
    runs = [Run(night, 1.0, None, night, {"jax": "1" if n < 7 else "2"}) for n, night in enumerate(NIGHTS)]
    (mark,) = drawn(trend(runs=runs)).versions
    assert mark.title == f"{NIGHTS[7]}: jax 1 → 2"


@pytest.mark.parametrize("level", [None, 1.0, 50.0])
def test_a_small_line_stays_in_its_place(level: float | None) -> None:
    found = spark([1.0, 1.2, 40.0, 0.9], level, "save")
    assert found is not None
    heights = [float(point.split()[1]) for point in found.path[1:].split("L")]
    assert all(0 <= height <= HEIGHT for height in heights)
    assert spark([1.0], level, "save") is None


def test_pages_take_no_text_for_markup() -> None:
    told = trend(
        [1.0] * 5,
        [Judged(NIGHTS[1], 1.0, HOSTILE, HOSTILE)],
        holes={NIGHTS[9]: HOSTILE},
        notes={NIGHTS[8]: HOSTILE},
    )
    page = SeriesPage(
        *("1234", (HOSTILE, "save"), HOSTILE, HOSTILE, Verdict.REGRESSED, HOSTILE, told),
        changes=[Change(NIGHTS[1], HOSTILE, HOSTILE)],
        facts=[(HOSTILE, HOSTILE)],
    )
    entry = Entry("series/1.html", (HOSTILE,), Verdict.REGRESSED, HOSTILE, HOSTILE, 3, "s", 1.0, 0.1)
    site = render_site([Section(HOSTILE, HOSTILE, [entry])], 1.8e9)
    for text in (render_series(page), site):
        assert "<script" not in text and "&lt;script&gt;" in text


def test_what_needs_a_look_stands_first() -> None:
    entries = [
        Entry(f"{verdict}.html", ("q", verdict.value), verdict, "", "", 9, "s")
        for verdict in (Verdict.PASS, Verdict.REGRESSED, Verdict.NOT_RUN)
    ]
    sections = [Section("a", "released", entries[:1]), Section("b", "released", entries)]
    page = render_site(sections, 1.8e9)
    assert [page.index(f">q / {word}<") for word in ("REGRESSED", "NOT_RUN", "PASS")] == sorted(
        page.index(f">q / {word}<") for word in ("REGRESSED", "NOT_RUN", "PASS")
    )
    assert page.index("<h2>b</h2>") < page.index("<h2>a</h2>")
    assert "1 series got worse and has not recovered; 1 series gave no value last." in page
    assert "Nothing was measured yet." in render_site([], 1.8e9)


def test_what_is_never_judged_stands_last_and_of_the_undecided_what_is_furthest_off_first() -> None:
    def one(name: str, verdict: Verdict | None, effect: float | None = None) -> Entry:
        return Entry(f"{name}.html", (name,), verdict, "", "", 9, "s", 1.0, effect)

    unsure = Verdict.INCONCLUSIVE
    entries = [
        one("a", None),
        one("b", unsure),
        one("c", unsure, -0.2),
        one("d", Verdict.PASS),
        one("e", unsure, 0.1),
    ]
    section = Section("m", "t", entries)
    assert [entry.title for entry in section.ordered] == ["c", "e", "b", "d", "a"]
    page = render_site([section], 1.8e9)
    assert "Nothing got worse as far as can be told; 3 series are undecided." in page
    assert '<div class="answer calm">' in page and '<span class="chip calm">not judged</span> 1' in page
    assert '<div class="answer good">' in render_site([Section("m", "t", [entries[0], entries[3]])], 1.8e9)
    page = render_site([Section("m", "t", [one("a", Verdict.NO_BASELINE), one("b", None)])], 1.8e9)
    assert "There is nothing to compare with yet." in page and '<div class="answer calm">' in page


def test_the_page_of_a_series_that_is_not_judged_says_nothing_of_a_verdict() -> None:
    page = render_series(SeriesPage("1", ("a",), "m", "t", None, "it follows", trend()))
    assert "not judged</span> it follows" in page and "INCONCLUSIVE" not in page
    page = render_series(SeriesPage("1", ("a",), "m", "t", Verdict.INCONCLUSIVE, "far off", trend()))
    assert "No change is certain so far." in page
