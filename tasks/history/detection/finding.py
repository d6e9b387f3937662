"""What was found of a series in a night: to which side it has moved, and what that rests on. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tasks.history.detection.baseline import Baseline
from tasks.history.detection.evidence import Evidence


class Change(enum.Enum):
    """To which side a series has moved: values, not whether that is good."""

    UP = 1
    NONE = 0
    DOWN = -1


@dataclass(frozen=True)
class Finding:
    """What was found of one series. `evidence` of the side that it leans to; None: there is no baseline yet."""

    change: Change
    baseline: Baseline | None
    evidence: Evidence | None
