"""What is drawn of a series from night to night: what is known of it, and the drawing in pixels. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tasks.history.intervals import Interval
from tasks.history.report.axis import Axis
from tasks.history.report.chart import WIDTH

HEIGHT = 280.0
LEFT, RIGHT = 66.0, WIDTH - 14.0
LINES = 3
"""Of words above the drawing."""
TOP, BOTTOM = 14.0 + 15 * LINES, HEIGHT - 40.0


@dataclass(frozen=True)
class Run:
    """A run's median in a night, in the series' unit. `aside`: why it does not count; empty where it does.

    `settled`: it speaks for its night; of a night that was run again, the first does not.
    """

    night: str
    value: float
    interval: Interval | None
    run_id: str
    versions: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    settled: bool = True


@dataclass(frozen=True)
class Judged:
    """What was decided in a night. `level`: what the series is held to. `told`: what happened, in a word."""

    night: str
    level: float | None = None
    told: str = ""
    words: str = ""
    in_alert: bool = False


@dataclass(frozen=True)
class Trend:
    """All that is drawn of a series. `nights`: their names, the latest last. `holes`: why a night gave no value.

    `notes`: what people said of a night.
    """

    label: str
    unit: str
    kind: str
    nights: Sequence[str]
    runs: Sequence[Run]
    judged: Sequence[Judged] = ()
    holes: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """Something at a night's place: a hole, a note, other versions, or a change; `kind` is its colour, its word stands
    at height `y`."""

    x: float
    title: str
    kind: str = ""
    text: str = ""
    anchor: str = "middle"
    y: float = 0.0


@dataclass(frozen=True)
class Spot:
    """A run at its place. `look`: counts, faint (was run again) or aside.

    `edge`: up or down where it is beyond the axis; its value then stands beside it, where there is room.
    """

    x: float
    y: float
    title: str
    look: str
    edge: str = ""
    value: Mark | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Stretch:
    """From `x1` to `x2`; of a level at height `y`."""

    x1: float
    x2: float
    y: float = 0.0
    title: str = ""


@dataclass(frozen=True)
class TrendChart:
    """The drawing, in pixels; `axis` maps values onto heights."""

    label: str
    kind: str
    axis: Axis
    dates: Sequence[Mark]
    spots: Sequence[Spot]
    levels: Sequence[Stretch]
    alerts: Sequence[Stretch]
    changes: Sequence[Mark]
    versions: Sequence[Mark]
    holes: Sequence[Mark]
    notes: Sequence[Mark]
    left: float = LEFT
    right: float = RIGHT
    top: float = TOP
    bottom: float = BOTTOM
    height: float = HEIGHT
