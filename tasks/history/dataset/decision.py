"""What is decided of a series in a night, and in which words. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runtime.contract.counting import counted
from tasks.history.comparison import LARGEST_FLOOR
from tasks.history.detection.baseline import ENOUGH_NIGHTS
from tasks.history.detection.finding import Change, Finding
from tasks.history.detection.series import Series
from tasks.history.detection.standing import Standing
from tasks.history.quantities import percent, plus_minus
from tasks.history.verdict import Verdict

LEAST = 0.02
"""The smallest change that counts where nobody says otherwise, a fraction."""

_ALONE = 1e-3
"""The chance of runs, the one that is furthest off left out where there are more, at which a night is left open."""

_SEEN = 3.5
"""A change has to be so many standard deviations of a run to be seen for sure."""


@dataclass(frozen=True)
class Decision:
    """What was decided of a series in a night. `basis` says of which values, so that it is known when it is stale.

    `effect`, `low`, `high`, `shift` and `least` are fractions, positive where values grew; None where there are none.
    `level` is what it is held to in this night, what the whole machine is off by included; `scatter` what runs scatter
    by around it, a fraction.
    `shift` is what the whole machine was off by, `shift_again` the same of runs that were made again. `standing` is
    where the series stands after the night.
    """

    night: str
    group: str
    series: str
    basis: str
    verdict: Verdict
    reason: str
    standing: Standing
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    probability: float | None = None
    window: int = 0
    level: float | None = None
    scatter: float | None = None
    shift: float | None = None
    shift_again: float | None = None
    told: str = ""
    least: float = LEAST

    @property
    def is_open(self) -> bool:
        """Says whether the night stands out and is no change yet: its runs do not agree, or there is one alone."""
        unsure = self.verdict is Verdict.INCONCLUSIVE
        return unsure and self.probability is not None and self.probability < _ALONE

    @property
    def is_change(self) -> bool:
        """Says whether something happened in this night: an alert opened or closed, or values got better."""
        return bool(self.told)


def told_of(before: Standing, standing: Standing, finding: Finding, worse: Change, night: str) -> str:
    """Returns what happened in a night, in a word; empty where nothing did."""
    if before.level == night:
        return "new level"
    if standing.alert and not before.alert:
        return "regressed"
    if before.alert and not standing.alert:
        return "recovered"
    if standing.level != before.level:
        return "new level"
    better = finding.change not in (Change.NONE, worse) and not before.better and not before.alert
    return "improved" if better else ""


def verdict_of(
    standing: Standing, finding: Finding, worse: Change, series: Series, night: str
) -> tuple[Verdict, str]:
    """Returns what a night's decision is called, and the reason in words."""
    baseline, evidence = finding.baseline, finding.evidence
    if standing.alert:
        change = percent(math.expm1(standing.alert.effect))
        since = "" if standing.alert.began == night else f" since {standing.alert.began}"
        return Verdict.REGRESSED, f"{change}{since}"
    if baseline is None or evidence is None:
        return _too_early(standing, series, night)
    if finding.change not in (Change.NONE, worse):
        return Verdict.IMPROVED, percent(math.expm1(evidence.effect))
    if not evidence.agreed and evidence.probability < _ALONE:
        return Verdict.INCONCLUSIVE, _stands_out(percent(math.expm1(evidence.effect)), series)
    scatter = math.sqrt(baseline.variance)
    if math.expm1(_SEEN * scatter) > LARGEST_FLOOR:
        return (
            Verdict.INCONCLUSIVE,
            f"nights scatter by {plus_minus(math.expm1(scatter))}: too noisy to judge",
        )
    return Verdict.PASS, f"within what nights scatter by, {plus_minus(math.expm1(scatter))}"


def _too_early(standing: Standing, series: Series, night: str) -> tuple[Verdict, str]:
    """Says why a night cannot be judged."""
    earlier = len(series.nights) - 1
    if standing.level == night:
        return Verdict.NO_BASELINE, "accepted: from this night on it is held to what it was in it"
    if not earlier:
        return Verdict.NO_BASELINE, "no earlier night"
    since = f" since the new level of {standing.level}" if standing.level else ""
    if earlier < ENOUGH_NIGHTS:
        nights = counted(earlier, "earlier night")
        return (
            Verdict.INCONCLUSIVE,
            f"{nights}{since}: it takes {ENOUGH_NIGHTS} to know how much nights scatter",
        )
    return (
        Verdict.INCONCLUSIVE,
        f"so many of the first nights{since} are far off the others that no {ENOUGH_NIGHTS} of them make a level",
    )


def _stands_out(off: str, series: Series) -> str:
    """Says why a night that is off is no change: one run, or runs of which each may be a spike of its own."""
    if len(series.nights[-1].runs) == 1:
        return f"{off} in one run: whether that is chance a second one would tell"
    return f"{off} in runs that differ more than a change makes them: whether it stays the next night tells"
