"""The table of all series: those that got worse first, each with its nights as a small line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.history.quantities import moment, percent, quantity
from tasks.history.report.lines import mood_of
from tasks.history.report.page import template
from tasks.history.report.series_page import NOT_JUDGED, style
from tasks.history.report.spark import Spark
from tasks.history.verdict import Verdict

_FIRST: tuple[Verdict | None, ...] = (
    Verdict.REGRESSED,
    Verdict.NOT_RUN,
    Verdict.IMPROVED,
    Verdict.INCONCLUSIVE,
    Verdict.NO_BASELINE,
    Verdict.PASS,
    None,
)


@dataclass(frozen=True)
class Entry:
    """A series in the table. `effect`: a fraction, positive where values grew. `latest`: in the series' unit.

    `verdict` None: none is given on it.
    """

    link: str
    name: Sequence[str]
    verdict: Verdict | None
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
        return mood_of(self.word)

    @property
    def word(self) -> str:
        """Returns its verdict, or that there is none."""
        return self.verdict.value if self.verdict else NOT_JUDGED

    @property
    def urgency(self) -> tuple[int, float, str]:
        """Returns what sorts first what needs a look: by verdict, of the undecided those that are furthest off."""
        off = abs(self.effect or 0.0) if self.verdict is Verdict.INCONCLUSIVE else 0.0
        return (_FIRST.index(self.verdict), -off, self.title)

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
        return sorted(self.entries, key=lambda one: one.urgency)


def render_site(sections: Sequence[Section], now: float) -> str:
    """Returns the page: one HTML document that loads nothing. `now`: seconds since the epoch."""
    counts = Counter(entry.verdict for section in sections for entry in section.entries)
    total = sum(counts.values())
    return template("site.html.j2").render(
        sections=sorted(sections, key=lambda one: (_worst(one), one.machine, one.track)),
        answer=_answer(counts),
        mood=_mood(counts),
        counts=[
            (word, mood_of(word), counts[verdict])
            for verdict in _FIRST
            if counts[verdict] and (word := verdict.value if verdict else NOT_JUDGED)
        ],
        when=moment(now),
        total=f"{total} series",
        style=style(),
    )


def _worst(section: Section) -> int:
    return min((_FIRST.index(entry.verdict) for entry in section.entries), default=len(_FIRST))


def _mood(counts: Counter[Verdict | None]) -> str:
    """Returns the colour of the answer: green only where nothing is left open."""
    if counts[Verdict.REGRESSED] or counts[Verdict.NOT_RUN]:
        return "bad"
    return "good" if counts[Verdict.PASS] and not counts[Verdict.INCONCLUSIVE] else "calm"


def _answer(counts: Counter[Verdict | None]) -> str:
    if not counts:
        return "Nothing was measured yet."
    told = []
    if worse := counts[Verdict.REGRESSED]:
        told.append(f"{worse} series got worse and {'has' if worse == 1 else 'have'} not recovered")
    if missing := counts[Verdict.NOT_RUN]:
        told.append(f"{missing} series gave no value last")
    if unsure := counts[Verdict.INCONCLUSIVE]:
        told = told or ["Nothing got worse as far as can be told"]
        told.append(f"{unsure} series {'is' if unsure == 1 else 'are'} undecided")
    if not told and not counts[Verdict.PASS] and not counts[Verdict.IMPROVED]:
        return "There is nothing to compare with yet."
    return f"{'; '.join(told)}." if told else "Nothing got worse."
