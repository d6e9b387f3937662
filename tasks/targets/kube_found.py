"""What a look at a JobSet comes to: its state, why it is so, and what is remembered of it for the next look."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.targets.kube_cause import Cause
from tasks.targets.kube_queue import Position


class KubeState(enum.StrEnum):
    """GONE: it was there and is gone, and how it ended is not known. All others are what they say."""

    QUEUED = "QUEUED"
    PROVISIONING = "PROVISIONING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PREEMPTED = "PREEMPTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    GONE = "GONE"


NO_WORKLOAD = "NoWorkload"
"""The reason of a JobSet that waits although Kueue has not queued it."""
ADMISSION_CHECK = "AdmissionCheck"
"""The reason of one that waits for a check of Kueue, and of one whose quota was taken back because of it."""

DELETED = "Deleted"
"""The reason of one that failed because somebody deleted it."""
RAN_TOO_LONG = "MaximumExecutionTimeExceeded"
"""Part of the reason of one that Kueue ended by the limit that its labels set."""

OVER = frozenset({KubeState.SUCCEEDED, KubeState.FAILED, KubeState.GONE})
"""After these nothing more happens to a JobSet."""


@dataclass(frozen=True)
class Found:
    """What a look at a JobSet came to. Given to the next look it is the memory of it.

    `reason` is a word, `message` the evidence for people; `since` is seconds since the epoch, as the cluster tells it.
    `restarts` are those of JobSet, `counted` those of them that its limit is for, `evictions` those of Kueue. `causes`
    says by attempt, from 0, why it failed; of attempts that failed before the first look nothing may be left. `seen`:
    its JobSet was there once.
    """

    state: KubeState
    reason: str = ""
    message: str = ""
    since: float | None = None
    restarts: int = 0
    counted: int = 0
    evictions: int = 0
    evicted: bool = False
    position: Position | None = None
    causes: Mapping[int, Cause] = field(default_factory=dict)
    seen: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in OVER

    @property
    def took_too_long(self) -> bool:
        """Whether its time limit made an end of it, be it by Kueue, which knows when it was admitted, or by its Job."""
        by_kueue = self.state == KubeState.FAILED and RAN_TOO_LONG in self.reason
        return by_kueue or (self.cause is not None and self.cause.kind == "deadline")

    @property
    def attempt(self) -> int:
        """Which start of it this is, from 1. An eviction makes another one only when it is admitted again."""
        return 1 + self.restarts + self.evictions - (1 if self.evicted else 0)

    @property
    def cause(self) -> Cause | None:
        """Why it failed, or why the attempt before the present one did."""
        return self.causes[max(self.causes)] if self.causes and self.state != KubeState.SUCCEEDED else None

    @property
    def key(self) -> tuple[KubeState, str, int]:
        """What must change for it to be news."""
        return self.state, self.reason, self.attempt
