"""Between which nights of which series to look for what made something slower: of a series, or of a whole machine."""

from __future__ import annotations

import numpy as np

from runtime.contract.errors import BadInput
from tasks.history.dataset.groups import Member
from tasks.history.dataset.of_machine import PREFIX
from tasks.history.dataset.store import Dataset
from tasks.stages.bisect_row import Ends, ends_of
from tasks.stages.history import Looked, machine_called, of_machine, shown_of

_TOLD_BY = 30
"""Nights before a change that tell how much a series scatters."""


def ends_called(dataset: Dataset, looked: Looked, word: str, good: str | None, bad: str | None) -> Ends:
    """Returns the ends of the series that a word means; of a machine those of its series that scatters least.

    Raises BadInput where nothing got worse, or a night that is named has no value.
    """
    if not word.startswith(PREFIX):
        return ends_of(shown_of(dataset, looked, looked.find(word)), good, bad)
    group = machine_called(looked, word)
    worse = [one for one in of_machine(dataset, looked, group) if one.told == "regressed"]
    if not worse and bad is None:
        raise BadInput(f"{group.title} never got worse together", fix="name one series, or --good and --bad")
    night = bad or worse[-1].night
    window = 1 if bad else max(1, worse[-1].window)
    there = [one for one in group.members.values() if one.places.get(night, 0) >= window]
    if not there:
        raise BadInput(
            f"no series of {group.title} has a value in {night!r}", fix=f"see slicebench history {word}"
        )
    chosen = min(there, key=lambda one: _scatter(one, night))
    before = chosen.recorded.nights[chosen.places[night] - window].name
    return ends_of(shown_of(dataset, looked, chosen.recorded), good or before, night)


def _scatter(member: Member, night: str) -> float:
    """Returns how much a series scattered before a night; few nights say nothing, and it is the last to be chosen."""
    last = member.places[night]
    centres = [one.settled.centre for one in member.recorded.nights[max(0, last - _TOLD_BY) : last]]
    return float(np.std(centres)) if len(centres) > 2 else float("inf")
