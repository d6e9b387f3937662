"""What a chart is: plain geometry, in pixels. Templates draw it; nothing here knows SVG or colours.

Every chart is WIDTH pixels wide and has one row per thing shown, over an axis. Rows of one benchmark stand
below a heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.history.report.axis import Axis

WIDTH = 860
LEFT, RIGHT = 190, WIDTH - 6
"""Where labels end and where notes end."""
ROW = 26.0
MOST_ROWS = 90
"""Rows of one chart; a suite with more has its numbers in the tables."""
_HEADING = 27.0
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

    `span` is an interval, `mark` a value to compare with or a median. `tall` rows hold repeats one below the
    other.
    """

    label: str
    y: float
    height: float = ROW
    kind: str = "other"
    detail: str = ""
    dots: Sequence[Dot] = ()
    bars: Sequence[Bar] = ()
    span: tuple[float, float] | None = None
    mark: float | None = None
    note: str = ""
    note_x: float = 0.0

    @property
    def tall(self) -> bool:
        """Says whether the row holds more than one line of dots."""
        return self.height > ROW


@dataclass(frozen=True)
class Heading:
    """The benchmark that the rows below belong to."""

    text: str
    y: float


@dataclass(frozen=True)
class Chart:
    """`label` tells the whole in words, for screen readers. `zero`: where a line says `no change`."""

    label: str
    height: float
    axis: Axis
    rows: Sequence[Row]
    headings: Sequence[Heading] = ()
    zero: float | None = None
    left_out: int = 0


@dataclass
class Layout:
    """Gives out places from top to bottom. `y` is where the next thing begins."""

    y: float = _TOP
    headings: list[Heading] = field(default_factory=list)

    def place(self, heading: str, height: float = ROW) -> float:
        """Returns the middle of the next row, under its heading if that differs from the one before."""
        if heading and (not self.headings or self.headings[-1].text != heading):
            self.headings.append(Heading(heading, self.y + _HEADING - 8))
            self.y += _HEADING
        middle = self.y + height / 2
        self.y += height
        return middle
