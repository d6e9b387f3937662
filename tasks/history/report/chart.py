"""What a chart is: plain geometry, in pixels. Templates draw it; nothing here knows SVG or colours.

Every chart is WIDTH pixels wide and has one row per thing shown, over an axis. Rows of one benchmark stand
below a heading. Labels and notes get the room that they need, for a drawing wraps no text: what does not fit is
cut off.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tasks.history.report.axis import Axis

WIDTH = 860
LETTER, BOLD = 7.6, 8.2
"""Pixels that a letter takes, on an average, in the widest of the usual fonts."""
_LEFT_LEAST, _LEFT_MOST = 190.0, 310.0
_RIGHT = WIDTH - 6.0
_INDENT, _GAP = 12.0, 12.0
ROW = 26.0
MOST_ROWS = 90
"""Rows of one chart; a suite with more has its numbers in the tables."""
_HEADING, _HEADING_LINE = 27.0, 17.0
_TOP = 4.0


@dataclass(frozen=True)
class Dot:
    """One value. `hollow`: a warm-up. `faint`: a worker that was not the slowest. `edge`: lies beyond the axis."""

    x: float
    y: float
    title: str
    hollow: bool = False
    faint: bool = False
    edge: bool = False


@dataclass(frozen=True)
class Bar:
    """A rectangle from `x` of width `width`, in the colour of `kind`."""

    x: float
    width: float
    kind: str
    title: str


@dataclass(frozen=True)
class Row:
    """A line of a chart, its middle at `y`. `label` stands at the left; `note` at `note_x`, right of what is
    drawn.

    `span` is an interval, `open_left` and `open_right` say that it goes on beyond the axis. `mark` is a value to
    compare with, or a median. `tall` rows hold repeats one below the other.
    """

    label: str
    y: float
    height: float = ROW
    kind: str = "other"
    detail: str = ""
    dots: Sequence[Dot] = ()
    bars: Sequence[Bar] = ()
    span: tuple[float, float] | None = None
    open_left: bool = False
    open_right: bool = False
    mark: float | None = None
    note: str = ""
    note_x: float = 0.0

    @property
    def tall(self) -> bool:
        """Says whether the row holds more than one line of dots."""
        return self.height > ROW


@dataclass(frozen=True)
class Heading:
    """The benchmark that the rows below belong to, or a line of its name."""

    text: str
    y: float


@dataclass(frozen=True)
class Chart:
    """`label` tells the whole in words, for screen readers. `zero`: where a line says `no change`.

    `letters`: of how many the longest label consists that fits.
    """

    label: str
    height: float
    axis: Axis
    rows: Sequence[Row]
    headings: Sequence[Heading] = ()
    zero: float | None = None
    left_out: int = 0
    letters: int = 0


@dataclass(frozen=True)
class Sides:
    """Where the plot begins and ends between labels and notes, and where a column of notes begins."""

    left: float
    right: float

    @property
    def notes(self) -> float:
        """Where notes stand that do not follow what is drawn."""
        return self.right + _GAP

    @property
    def letters(self) -> int:
        """How many letters of a label fit."""
        return int((self.left - _INDENT - _GAP) / LETTER)


def sides(labels: Iterable[str], notes: Iterable[str]) -> Sides:
    """Returns the room that all labels and notes of a chart need; a very long label has to be shortened."""
    label, note = (LETTER * max((len(text) for text in texts), default=0) for texts in (labels, notes))
    return Sides(min(max(_LEFT_LEAST, _INDENT + label + _GAP), _LEFT_MOST), _RIGHT - note - _GAP)


def shortened(text: str, letters: int) -> str:
    """Returns a text of at most so many letters: its beginning and its end, for both tell things apart."""
    if len(text) <= letters:
        return text
    end = (letters - 1) // 2
    return f"{text[: letters - 1 - end]}…{text[len(text) - end :]}"


@dataclass
class Layout:
    """Gives out places from top to bottom. `y` is where the next thing begins."""

    y: float = _TOP
    headings: list[Heading] = field(default_factory=list)
    _under: str = ""

    def place(self, heading: str, height: float = ROW) -> float:
        """Returns the middle of the next row, under its heading if that differs from the one before."""
        if heading and heading != self._under:
            self._under = heading
            self.y += _HEADING - _HEADING_LINE
            for line in textwrap.wrap(heading, int(WIDTH / BOLD)):
                self.y += _HEADING_LINE
                self.headings.append(Heading(line, self.y - 8))
        middle = self.y + height / 2
        self.y += height
        return middle
