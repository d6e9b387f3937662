"""How long it is waited for what was asked to go: by whoever gives back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Patience:
    """How long a release may take: seconds until things are forced, until it gives up, between looks.

    Kinds that are slow to go get longer than `deadline_s`, but never more than `at_most_s`. `tell` hears what is waited
    for, after `tell_after_s`, and then half as often each time. Where nothing goes any more, for one may not look at or
    delete what is left, it ends after `denied_s`: a role that was just given takes so long to show.
    """

    grace_s: float = 8.0
    deadline_s: float = 30.0
    look_every_s: float = 0.1
    renew_every_s: float = 10.0
    at_most_s: float = math.inf
    denied_s: float = 120.0
    tell: Callable[[str], None] = field(default=lambda line: None, compare=False)
    tell_after_s: float = 15.0

    def within(self, limit_s: float | None) -> Patience:
        """Returns the same with a time limit that somebody chose, whatever the kinds of what goes; None: without."""
        return self if limit_s is None else replace(self, deadline_s=limit_s, at_most_s=limit_s)


USUAL = Patience()
"""Enough for processes and folders on this machine."""
