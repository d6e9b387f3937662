"""What is decided of a whole machine in a night, beside the decisions of its series, and where it stands after. Pure.

It is a decision as those of series are, by the name that `name_of_machine` gives a group: so it has its alert, and is
written, read and taken over like them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from tasks.history.dataset.decision import Decision
from tasks.history.detection.common import Shift
from tasks.history.detection.machine import Machine, Taken, Together, accepted
from tasks.history.detection.night import Shown
from tasks.history.quantities import percent
from tasks.history.verdict import Verdict

_REACH = 1.96
"""Standard errors to each side of an interval of 95 %."""

PREFIX = "machine-"


def name_of_machine(group: str) -> str:
    """Returns the name by which what all series of a group show together is known."""
    return f"{PREFIX}{hashlib.sha256(group.encode()).hexdigest()[:6]}"


def taken_of(decisions: Mapping[str, Decision]) -> Taken:
    """Returns what a night's series were freed of, from their decisions."""
    one = next(iter(decisions.values()), None)
    if one is None or one.shift is None:
        return Taken()
    return Taken(math.log1p(one.shift), math.log1p(one.shift if one.shift_again is None else one.shift_again))


def machine_after(before: Machine, decision: Decision | None, taken: Taken) -> Machine:
    """Returns where a machine stands after a night of which this was decided of it; None: there was nothing to say."""
    if decision is None:
        return before
    expected = math.log(decision.level) if decision.level else 0.0
    return Machine(decision.standing, expected, taken.again - expected)


def machine_decision(
    group: str, night: str, basis: str, before: Machine, shown: Shown, *, accept: bool
) -> Decision | None:
    """Returns what is decided of a machine; None where there is nothing to say. `accept`: somebody said that it is
    expected to be as it is in this night."""
    together = shown.together
    after = accepted(night, together) if accept else shown.after(before, night)
    plain = before.standing == after.standing == Machine().standing
    if plain and not after.expected and not any(together.taken):
        return None
    verdict, reason = _verdict(after, together, night, shown.least)
    shift, reach = together.shift, _REACH * (together.shift.error if together.shift else 0.0)
    return Decision(
        night=night,
        group=group,
        series=name_of_machine(group),
        basis=basis,
        verdict=verdict,
        reason=reason,
        standing=after.standing,
        effect=math.expm1(together.size) if shift else None,
        low=math.expm1(together.size - reach) if shift else None,
        high=math.expm1(together.size + reach) if shift else None,
        probability=_chance(shift) if shift and verdict is Verdict.INCONCLUSIVE else None,
        window=2
        if together.confirmed and together.again is None
        else 1,  # else the night before told nothing yet
        level=math.exp(after.expected),
        shift=math.expm1(together.taken.first),
        shift_again=math.expm1(together.taken.again),
        told=_told(before, after, together, accept=accept),
        least=math.expm1(shown.least),
    )


def _verdict(after: Machine, together: Together, night: str, least: float) -> tuple[Verdict, str]:
    alert, shift = after.standing.alert, together.shift
    if alert:
        since = "" if alert.began == night else f" since {alert.began}"
        return Verdict.REGRESSED, f"{percent(math.expm1(alert.effect))}{since}"
    if not together.known:
        return Verdict.INCONCLUSIVE, "too few series tell what the machine does"
    if shift and after.standing.better:
        return Verdict.IMPROVED, percent(math.expm1(together.size))
    if shift is None or after.standing.level == night:
        return Verdict.PASS, "its series together are where they are expected"
    words = f"{percent(math.expm1(shift.size))} together"
    if together.again is not None and not together.confirmed:
        return Verdict.PASS, f"{words} at first, {percent(math.expm1(together.again))} when some ran again"
    if not together.confirmed and abs(shift.size) >= least:
        return Verdict.INCONCLUSIVE, f"{words} in one run: whether that is chance a second one would tell"
    return Verdict.PASS, f"{words}: less than what counts"


def _chance(shift: Shift) -> float:
    """Returns how likely chance alone makes all move so far."""
    return math.erfc(abs(shift.size) / shift.error / math.sqrt(2))


def _told(before: Machine, after: Machine, together: Together, *, accept: bool) -> str:
    if accept or after.expected != before.expected:
        return "new level"
    if after.standing.alert and not before.standing.alert:
        return "regressed"
    if before.standing.alert and not after.standing.alert:
        return "recovered"
    return "improved" if len(after.standing.better) == 1 and together.shift else ""
