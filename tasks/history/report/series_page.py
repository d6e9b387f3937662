"""The page of one series: where it stands, its nights as a drawing, what changed when, and its latest runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.history.quantities import between, quantity
from tasks.history.report.chart import WIDTH
from tasks.history.report.lines import Line, mood_of
from tasks.history.report.page import TEMPLATES, template
from tasks.history.report.trend import trend_chart
from tasks.history.report.trend_model import Run, Trend
from tasks.history.verdict import Verdict

NIGHT_HEADINGS = ("night", "median", "interval of the median", "run")
CHANGE_HEADINGS = ("night", "what happened", "change")
MOST_NIGHTS = 30
"""Nights of the table; the drawing has all."""

MEANS: Mapping[Verdict, str] = {
    Verdict.PASS: "The latest night is within what nights differ by when nothing changed.",
    Verdict.REGRESSED: "It got worse, its runs agree, and it has not recovered since.",
    Verdict.IMPROVED: "It got better; that becomes the level once it has lasted.",
    Verdict.INCONCLUSIVE: "So far the nights cannot tell whether anything changed.",
    Verdict.NO_BASELINE: "There is no earlier night of its level to compare with.",
    Verdict.NOT_RUN: "The latest night gave no value.",
}
NOT_JUDGED = "not judged"
"""What stands in the place of a verdict where none is given."""


@dataclass(frozen=True)
class Change:
    """Something that happened: `told` in a word, `words` for the effect and how sure it is."""

    night: str
    told: str
    words: str


@dataclass(frozen=True)
class SeriesPage:
    """All that the page says. `name`: parts, from the suite to the metric. `facts`: what its runs have in common.

    `verdict` None: none is given on such a series, for the `reason`.
    """

    id: str
    name: Sequence[str]
    machine: str
    track: str
    verdict: Verdict | None
    reason: str
    trend: Trend
    changes: Sequence[Change] = ()
    facts: Sequence[tuple[str, str]] = ()

    @property
    def title(self) -> str:
        """Returns the name in one line."""
        return " / ".join(self.name)

    @property
    def mood(self) -> str:
        """Returns the colour, in a word, of where it stands."""
        return mood_of(self.verdict or NOT_JUDGED)

    @property
    def undecided(self) -> bool:
        """Says whether there may be a change that nobody can tell yet."""
        return self.verdict is Verdict.INCONCLUSIVE


def render_series(page: SeriesPage, home: str = "") -> str:
    """Returns the page: one HTML document that loads nothing. `home`: where the table of all series is, if anywhere."""
    trend = page.trend
    return template("series.html.j2").render(
        page=page,
        word=page.verdict.value if page.verdict else NOT_JUDGED,
        means=MEANS[page.verdict] if page.verdict else "",
        home=home,
        chart=trend_chart(trend),
        changes=[Line([(one.night, ""), (one.told, ""), (one.words, "")]) for one in reversed(page.changes)],
        change_headings=CHANGE_HEADINGS,
        runs=[_line(run, trend.unit) for run in trend.runs[: -MOST_NIGHTS - 1 : -1]],
        run_headings=NIGHT_HEADINGS,
        holes=sorted(trend.holes.items(), reverse=True)[:MOST_NIGHTS],
        style=style(),
        width=WIDTH,
    )


def style() -> str:
    """Returns our own style sheet, marked as the only text that is not escaped."""
    from markupsafe import Markup

    return Markup(Path(TEMPLATES / "style.css").read_text())


def _line(run: Run, unit: str) -> Line:
    below = f"does not count: {run.aside}" if run.aside else "" if run.settled else "it was run again"
    return Line(
        [
            (run.night, below),
            (quantity(run.value, unit), ""),
            (
                between(run.interval, unit) or "–",
                f"{100 * run.interval.confidence:.1f} %" if run.interval else "",
            ),
            (run.run_id, ""),
        ]
    )
