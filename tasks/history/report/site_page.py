"""The table of all series: those that got worse first, each with its nights as a small line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.history.quantities import moment, percent, quantity
from tasks.history.report.lines import mood_of
from tasks.history.report.page import template
from tasks.history.report.series_page import style
from tasks.history.report.spark import Spark
from tasks.history.verdict import Verdict

_FIRST = (
    Verdict.REGRESSED,
    Verdict.NOT_RUN,
    Verdict.IMPROVED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_BASELINE,
    Verdict.PASS,
)


@dataclass(frozen=True)
class Entry:
    """A series in the table. `effect`: a fraction, positive where values grew. `latest`: in the series' unit."""

    link: str
    name: Sequence[str]
    verdict: Verdict
    reason: str
    last_night: str
    nights: int
    unit: str
    latest: float | None = None
    effect: float | None = None
    spark: Spark | None = None

    @property
    def title(self) -> str:
        """Returns the name in one line."""
        return " / ".join(self.name)

    @property
    def mood(self) -> str:
        """Returns the colour, in a word, of where it stands."""
        return mood_of(self.verdict)

    @property
    def value(self) -> str:
        """Returns the latest value for people."""
        return "–" if self.latest is None else quantity(self.latest, self.unit)

    @property
    def change(self) -> str:
        """Returns how far off its level it is."""
        return "–" if self.effect is None else percent(self.effect)


@dataclass(frozen=True)
class Section:
    """The series of one machine and track."""

    machine: str
    track: str
    entries: Sequence[Entry]

    @property
    def ordered(self) -> list[Entry]:
        """Returns its series, those that need a look first."""
        return sorted(self.entries, key=lambda one: (_FIRST.index(one.verdict), one.title))


def render_site(sections: Sequence[Section], now: float) -> str:
    """Returns the page: one HTML document that loads nothing. `now`: seconds since the epoch."""
    counts = Counter(entry.verdict for section in sections for entry in section.entries)
    total = sum(counts.values())
    return template("site.html.j2").render(
        sections=sorted(sections, key=lambda one: (_worst(one), one.machine, one.track)),
        answer=_answer(counts),
        mood="bad" if counts[Verdict.REGRESSED] or counts[Verdict.NOT_RUN] else "good" if total else "calm",
        counts=[(verdict.value, mood_of(verdict), counts[verdict]) for verdict in _FIRST if counts[verdict]],
        when=moment(now),
        total=f"{total} series",
        style=style(),
    )


def _worst(section: Section) -> int:
    return min((_FIRST.index(entry.verdict) for entry in section.entries), default=len(_FIRST))


def _answer(counts: Counter[Verdict]) -> str:
    if not counts:
        return "Nothing was measured yet."
    told = []
    if worse := counts[Verdict.REGRESSED]:
        told.append(f"{worse} series got worse and {'has' if worse == 1 else 'have'} not recovered")
    if missing := counts[Verdict.NOT_RUN]:
        told.append(f"{missing} series gave no value last")
    return f"{'; '.join(told)}." if told else "Nothing got worse."
