"""What is told of a night's series: verdicts, with what they rest on, and what is known to be right again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tasks.history.verdict import Verdict


@dataclass(frozen=True)
class SeriesTold:
    """One series of one cell in one night. `series`: its name in the history, or one that says what was compared.

    `effect` with its interval, and `probability`, as in Decision; `since`: the night in which an open alert began.
    `recent`: its latest nights in `unit`, and `level` what they are held to; none of what is not judged by nights.
    `whole`: it is what all series of a machine show together. `open`: it stands out, and is no change yet.
    """

    series: str
    name: str
    cell: str
    verdict: Verdict
    reason: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    probability: float | None = None
    told: str = ""
    since: str = ""
    unit: str = ""
    recent: Sequence[float] = ()
    level: float | None = None
    whole: bool = False
    open: bool = False


@dataclass(frozen=True)
class NightTold:
    """All series of a night. `shifts`: what whole machines were off by, a sentence each.

    `right`: series of which no alert is open any more, with a word on why. `troubles`: what could not be judged.
    """

    series: Sequence[SeriesTold] = ()
    shifts: Sequence[str] = ()
    right: Mapping[str, str] = field(default_factory=dict)
    troubles: Sequence[str] = ()
