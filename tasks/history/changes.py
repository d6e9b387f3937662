"""How a change against earlier runs reads: the same words in the table, the report and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tasks.history.effect import Effect
from tasks.history.quantities import digits, percent, size

FAR = 10.0
"""A ratio from which on it is told in times, not in percent; and how many times the change an interval may reach before
it says nothing any more. That of two earlier runs rests on one difference: it may well reach over a hundred times."""

UNBOUNDED = "unbounded"

UNBOUNDED_MEANS = (
    f"{UNBOUNDED}: it reaches beyond {FAR:.0f} times to either side, as happens with few runs or repeats"
)


def ratio(fraction: float) -> str:
    """Returns a signed change: in percent, or from ten times on as × 12.3 and ÷ 12.3."""
    times = 1 + fraction
    if times >= FAR:
        return f"× {digits(times)}"
    return f"÷ {digits(1 / times)}" if 0 < times <= 1 / FAR else percent(fraction)


def change(effect: Effect) -> str:
    """Returns how much a run differs from earlier ones."""
    if effect.both_below_least and effect.least is not None:
        return f"both below {size(effect.least)}"
    return ratio(effect.effect)


def is_bounded(effect: Effect) -> bool:
    """Says whether there is an interval that narrows down what the change may be."""
    return effect.high is not None and effect.low is not None and 1 + effect.high <= FAR * (1 + effect.effect)


def interval(effect: Effect) -> str:
    """Returns the interval of a change, or that it has no bound; empty where none can be told or there is no change."""
    if effect.low is None or effect.high is None or effect.both_below_least:
        return ""
    return f"{ratio(effect.low)} … {ratio(effect.high)}" if is_bounded(effect) else UNBOUNDED


def any_unbounded(effects: Iterable[Effect]) -> bool:
    """Says whether that word is told of any, and has to be explained."""
    return any(interval(effect) == UNBOUNDED for effect in effects)


def counted_from(effect: Effect) -> str:
    """Says that what is too little to compare was taken for more; empty where nothing was."""
    if effect.least is None or effect.both_below_least:
        return ""
    return f"less than {size(effect.least)} counts as that"
