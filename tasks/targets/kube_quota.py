"""What Kueue's words mean for a Workload without quota: it waits, it never fits, there is nothing of its kind. Pure.

Kueue tries every flavor of its queue and says of each why not, all in one sentence: what counts is the best of them.
"""

from __future__ import annotations

import re
from typing import Literal

Verdict = Literal["waits", "never", "no flavor", ""]

_RANK: tuple[Verdict, ...] = ("waits", "never", "no flavor")
"""From best to worst."""
_REASONS: tuple[tuple[Verdict, re.Pattern[str]], ...] = (
    ("waits", re.compile(r"insufficient unused quota (?:in cohort )?for \S+ in flavor (?P<flavor>[^\s,]+)")),
    ("never", re.compile(r"insufficient quota for \S+ in flavor (?P<flavor>[^\s,]+)")),
    ("no flavor", re.compile(r"flavor (?P<flavor>\S+) doesn't match node affinity")),
    ("no flavor", re.compile(r"untolerated taint \{[^}]*\} in flavor (?P<flavor>[^\s,]+)")),
    ("no flavor", re.compile(r"Flavor (?P<flavor>\S+) does not support Topology")),
    ("no flavor", re.compile(r"(?P<flavor>)resource \S+ unavailable in ClusterQueue")),
)


def verdict(message: str) -> Verdict:
    """Returns what the message of a QuotaReserved condition comes to; empty where it is about something else.

    A flavor is as bad as the worst of what is said of it, for each resource; a Workload gets the best flavor.
    """
    of_flavor: dict[str, Verdict] = {}
    for told, pattern in _REASONS:
        for match in pattern.finditer(message):
            before = of_flavor.get(match["flavor"], told)
            of_flavor[match["flavor"]] = max(before, told, key=_RANK.index)
    return min(of_flavor.values(), key=_RANK.index) if of_flavor else ""
