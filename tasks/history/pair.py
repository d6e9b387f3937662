"""Two runs beside each other, series by series, repeat against repeat; and what of them cannot be compared. Pure.

A run is one draw of what runs give, however many repeats it has: that two runs differ by more than their repeats
scatter does not mean that their code does. Where the history knows how much runs of a series differ by themselves,
that is heeded; where it does not, it is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tasks.history.comparison import SMALLEST_MEMORY, SeriesKey, is_judged
from tasks.history.effect import Effect, measure_effect
from tasks.history.fingerprint import difference
from tasks.history.labels import labels
from tasks.history.measurement import Measurement
from tasks.history.ranks import shift
from tasks.history.results import PointOutcome, Results
from tasks.history.summary import combine_of


@dataclass(frozen=True)
class Pair:
    """One series in both runs: `here` in the run in question, `there` in the one it is compared with, in `unit`.

    `effect` is the median of all pairs of a repeat here and one there, with the interval of the rank test; where so few
    repeats tell nothing by their ranks, that of the medians, with the interval of their scatter. `larger`: in which
    share of all pairs of repeats the value here is the larger one. `usual`: how far two runs of the series differ at
    most in 19 of 20 cases when nothing changed, a fraction; None: not known.
    """

    label: str
    benchmark_key: str
    operation: str
    metric: str
    unit: str
    here: Sequence[float]
    there: Sequence[float]
    effect: Effect | None
    larger: float
    usual: float | None

    @property
    def word(self) -> str:
        """Returns what can be said, in a word or two."""
        effect = self.effect
        if effect is None or effect.low is None or effect.high is None:
            return "cannot tell"
        if effect.both_below_least or effect.low <= 0 <= effect.high:
            return "no difference"
        if self.usual is not None and abs(math.log1p(effect.effect)) <= math.log1p(self.usual):
            return "as runs differ"
        grew = effect.effect > 0
        words = ("slower", "faster") if self.unit == "s" else ("more", "less")
        return words[not grew]


@dataclass(frozen=True)
class Comparison:
    """`left_out` says of what is in one of the runs and was not compared why not. `versions` are those that differ."""

    here: str
    there: str
    pairs: Sequence[Pair]
    left_out: Sequence[str]
    versions: Mapping[str, tuple[str, str]]


def incomparable(here: Results, there: Results) -> str | None:
    """Says why two runs cannot be compared at all; None when they can."""
    if (here.run_id, here.began_at) == (there.run_id, there.began_at):
        return "they are one and the same run"
    if unequal := difference(here.fingerprint, there.fingerprint):
        return f"they ran on different machines: {unequal}"
    if not {point.benchmark_key for point in here.points} & {point.benchmark_key for point in there.points}:
        return f"they have no benchmark in common with the same options, mesh and checkpoint{_nearest(here, there)}"
    return None


def compared(here: Results, there: Results, usual: Mapping[SeriesKey, float]) -> Comparison:
    """Compares two runs that can be. `usual`: of a series how far two runs differ, see Pair."""
    names, others = labels(here.points), {point.benchmark_key: point for point in there.points}
    found: list[Pair] = []
    left_out: list[str] = []
    for point in here.points:
        other = others.pop(point.benchmark_key, None)
        label = names[point.point]
        if other is None:
            left_out.append(f"{label}: not in {there.run_id}")
        elif why := _unmeasured(here, point) or _unmeasured(there, other):
            left_out.append(f"{label}: {why}")
        else:
            pairs, reasons = _of_point(label, here.of_point(point.point), there.of_point(other.point), usual)
            found += pairs
            left_out += [f"{label}: {reason}" for reason in reasons]
    names = labels(there.points)
    left_out += [f"{names[other.point]}: not in {here.run_id}" for other in others.values()]
    return Comparison(here.run_id, there.run_id, found, left_out, _versions(here, there))


def _of_point(
    label: str, here: Sequence[Measurement], there: Sequence[Measurement], usual: Mapping[SeriesKey, float]
) -> tuple[list[Pair], list[str]]:
    others = {(one.operation, one.metric): one for one in there}
    pairs, reasons = [], []
    for one in here:
        if not is_judged(one):
            continue
        what, other = f"{one.operation} {one.metric}", others.get((one.operation, one.metric))
        if other is None:
            reasons.append(f"{what} was measured in one of them only")
            continue
        if other.unit != one.unit:
            reasons.append(f"{what} is in {one.unit} here and in {other.unit} there")
            continue
        values, before = _values(one), _values(other)
        if values and before:
            key = one.benchmark_key, one.operation, one.metric
            pairs.append(_pair(label, one, values, before, usual.get(key)))
        else:
            reasons.append(f"{what} has no value that counts in one of them")
    return pairs, reasons


def _pair(label: str, one: Measurement, here: list[float], there: list[float], usual: float | None) -> Pair:
    least = SMALLEST_MEMORY if one.unit == "bytes" else 0.0
    ours, theirs = np.asarray(here)[:, None], np.asarray(there)
    larger = float(((ours > theirs) + (ours == theirs) / 2).mean())
    effect = measure_effect(here, [there], least)
    both = [np.log(np.maximum(values, least)).tolist() for values in (here, there)] if effect else [[], []]
    if effect and (found := shift(*both)):
        effect = replace(
            effect, effect=math.expm1(found.centre), low=math.expm1(found.low), high=math.expm1(found.high)
        )
    return Pair(
        label, one.benchmark_key, one.operation, one.metric, one.unit, here, there, effect, larger, usual
    )


def _values(one: Measurement) -> list[float]:
    values = one.combined(combine_of(one.unit, one.metric))
    return [float(value) for value in values if math.isfinite(value)]


def _unmeasured(results: Results, point: PointOutcome) -> str:
    """Says why a point of a run has no values to compare; empty when it has."""
    if point.status != "passed":
        return f"{'failed' if point.status == 'failed' else 'was not run'} in {results.run_id}"
    preempted = {attempt.n for attempt in results.attempts if attempt.end == "preempted"}
    return f"its attempt was preempted in {results.run_id}" if point.attempt in preempted else ""


def _nearest(here: Results, there: Results) -> str:
    """Says in which options the two benchmarks differ, where each run has one of the same class."""
    for point in here.points:
        for other in there.points:
            if point.generator == other.generator:
                names = {*point.options, *other.options}
                unequal = sorted(name for name in names if point.options.get(name) != other.options.get(name))
                what = unequal or [
                    name
                    for name in ("mesh", "checkpoint", "disruption")
                    if getattr(point, name) != getattr(other, name)
                ]
                return f": they differ in {', '.join(what)}" if what else ""
    return ""


def _versions(here: Results, there: Results) -> dict[str, tuple[str, str]]:
    """Returns the versions that differ: there and here."""
    found = {}
    ours, theirs = (_told(results) for results in (here, there))
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            found[name] = (theirs.get(name, "–"), ours.get(name, "–"))
    return found


def _told(results: Results) -> dict[str, str]:
    versions, source = (results.manifest.get(name) for name in ("versions", "source"))
    told = {str(name): str(found) for name, found in (versions or {}).items()}
    commit = source.get("commit") if isinstance(source, Mapping) else None
    return told | ({"commit": str(commit)} if commit else {})
