"""What training gave under each variant of an acceptance, what that costs against the first, and what is proved. Pure.

A variant is accepted when nothing of it was disproved, what had to be proved was, and its saves and restores take at
most `limit` more than those of the variant it is held against. What cannot be told is neither accepted nor refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runtime.contract.counting import counted
from tasks.history.acceptance_cost import Cost, Times, cost_of, times_of
from tasks.history.intervals import median
from tasks.history.quantities import percent

LIMIT = 0.05
"""What a variant may cost when nobody says another limit, a fraction."""

OPERATIONS = ("save", "restore")

Verdict = Literal["accepted", "refused", "cannot tell"]


@dataclass(frozen=True)
class Start:
    """One time that training was started, until it was stopped or came to its end.

    `saves` and `restores`: seconds of each, in order; `saved`: steps that it said to be complete. `losses`: by step, as
    they were told. `newest`: the newest step whose checkpoint was complete before this start; None: there was none.
    `seen`: that was looked up when nobody saved any more; else it is the least that there was. `resumed`: the step it
    went on from; None: it began anew. `cut`: it was ended by what was no stop of ours, so its times are nobody's.
    """

    saves: tuple[float, ...] = ()
    restores: tuple[float, ...] = ()
    losses: Mapping[int, float] = field(default_factory=dict)
    newest: int | None = None
    resumed: int | None = None
    saved: tuple[int, ...] = ()
    seen: bool = True
    cut: bool = False

    @property
    def is_silent(self) -> bool:
        """Whether it was cut before it said anything."""
        told = self.resumed is not None or self.saves or self.restores or self.losses or self.saved
        return self.cut and not told


@dataclass(frozen=True)
class Stored:
    """What one complete checkpoint takes in the bucket, as the bucket has it."""

    step: int
    objects: int
    bytes: int


@dataclass(frozen=True)
class Check:
    """Something that had to be proved. `passed` None: it could not be told; `told`: what was seen, one line."""

    name: str
    passed: bool | None
    told: str


@dataclass(frozen=True)
class Trial:
    """What training gave under one variant, and what else was found out about it.

    `repeats`: each is training from the beginning, start after start: first until it was stopped, then until its end.
    """

    variant: str
    repeats: Sequence[Sequence[Start]]
    stored: Sequence[Stored] = ()
    checks: Sequence[Check] = ()


@dataclass(frozen=True)
class Judged:
    """A variant: its `times` and its `costs` by operation (see OPERATIONS; what was not measured is left out).

    `stored`: each checkpoint that was looked at in the bucket.
    """

    variant: str
    times: Mapping[str, Times]
    costs: Mapping[str, Cost]
    stored: Sequence[Stored]
    checks: Sequence[Check]
    verdict: Verdict
    reason: str

    @property
    def objects(self) -> float | None:
        """Returns how many a checkpoint is made of, the median; None: not known."""
        return median([one.objects for one in self.stored]) if self.stored else None

    @property
    def stored_bytes(self) -> float | None:
        """Returns how large a checkpoint is, the median; None: not known."""
        return median([one.bytes for one in self.stored]) if self.stored else None


@dataclass(frozen=True)
class Acceptance:
    """All variants, `base` first: the others are held against it. `limit` is a fraction."""

    base: str
    limit: float
    variants: Sequence[Judged]

    @property
    def verdict(self) -> Verdict:
        """Returns that of the variant that fares worst."""
        found = {one.verdict for one in self.variants}
        return next((one for one in _WORST_FIRST if one in found), "cannot tell")


_WORST_FIRST: tuple[Verdict, ...] = ("refused", "cannot tell", "accepted")


def accept(trials: Sequence[Trial], base: str | None = None, limit: float = LIMIT) -> Acceptance:
    """Judges at least one variant, each name once. `base`: which of them others are held against; else the first."""
    base = trials[0].variant if base is None else base
    ordered = sorted(trials, key=lambda one: one.variant != base)
    if not trials or ordered[0].variant != base:
        raise ValueError(f"no variant is named {base}")
    against = {name: times for name in OPERATIONS if (times := _times(ordered[0], name))}
    return Acceptance(base, limit, [_judged(one, against, limit, one is ordered[0]) for one in ordered])


def _judged(trial: Trial, against: Mapping[str, Times], limit: float, is_base: bool) -> Judged:
    times = {name: found for name in OPERATIONS if (found := _times(trial, name))}
    costs = (
        {} if is_base else {name: cost_of(times.get(name), against.get(name), limit) for name in OPERATIONS}
    )
    verdict, reason = _verdict(trial.checks, costs)
    if verdict == "accepted" and not times:
        verdict, reason = "cannot tell", "no save and no restore was measured"
    return Judged(
        variant=trial.variant,
        times=times,
        costs=costs,
        stored=list(trial.stored),
        checks=list(trial.checks),
        verdict=verdict,
        reason=reason,
    )


def _times(trial: Trial, operation: str) -> Times | None:
    starts = [start for repeat in trial.repeats for start in repeat if not start.cut]
    return times_of(
        [seconds for start in starts for seconds in (start.saves if operation == "save" else start.restores)]
    )


def _verdict(checks: Iterable[Check], costs: Mapping[str, Cost]) -> tuple[Verdict, str]:
    """Says what all of it comes to: what is disproved first, then what costs too much, then what is not known."""
    checks = list(checks)
    if wrong := [one for one in checks if one.passed is False]:
        return "refused", _first(wrong)
    if over := {name: one for name, one in costs.items() if one.standing == "over"}:
        return "refused", "; ".join(
            f"a {name} takes {percent(one.effect or 0.0)[1:]} more" for name, one in over.items()
        )
    if open_ := [one for one in checks if one.passed is None]:
        return "cannot tell", _first(open_)
    if unknown := {name: one for name, one in costs.items() if one.standing == "cannot tell"}:
        return "cannot tell", "; ".join(f"{name}: {one.reason}" for name, one in unknown.items())
    if not costs:
        return "accepted", "the others are held against it"
    return "accepted", "all was proved, and it costs no more than it may"


def _first(checks: Sequence[Check]) -> str:
    more = f" (and {counted(len(checks) - 1, 'other thing')})" if len(checks) > 1 else ""
    return f"{checks[0].name}: {checks[0].told}{more}"
