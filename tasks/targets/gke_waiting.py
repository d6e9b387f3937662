"""How long a workload may wait, for its turn and then for its pods, and what is told when that time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tasks.config.gke_target import GkeLimits
from tasks.targets.kube_found import NO_WORKLOAD, Found, KubeState
from tasks.targets.kube_quota import verdict
from tasks.targets.types import WaitedTooLong as WaitedTooLong

HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""What no wait mends: pods name their image for good. All else somebody may mend while it waits: an administrator adds
quota, makes the queue, or lets nodes read the registry.
"""

ALONE_S = 900.0
"""For its turn in the queue of machines that runs made, where the target does not say: nobody else is in front."""

_PHASES = {
    KubeState.QUEUED: "queue_s",
    KubeState.PREEMPTED: "queue_s",
    KubeState.PROVISIONING: "provisioning_s",
    KubeState.STARTING: "provisioning_s",
}

_MENDED = "fix that, or raise the limit in the target file, and go on with --resume"


@dataclass(frozen=True)
class _Phase:
    limit: str
    allowed_s: float | None
    began: float


class Waiting:
    """Counts how long a workload that never began waits, by our own clock: the cluster's may be another.

    Time for its turn and time for nodes, images and containers count apart, each over all times that it is so; time
    in which the cluster does not answer counts, and is judged when it answers again.
    """

    def __init__(
        self,
        name: str,
        limits: GkeLimits,
        clock: Callable[[], float] = time.monotonic,
        alone_s: float | None = None,
    ) -> None:
        """`alone_s`: for its turn where nobody else has the queue's quota; None: as long as where somebody has."""
        self._name, self._limits, self._clock, self._alone_s = name, limits, clock, alone_s
        self._phase: _Phase | None = None
        self._spent = {"queue_s": 0.0, "provisioning_s": 0.0}
        self.unheard = False
        """Whether the cluster does not answer at present: then nobody knows what it waits for."""

    def check(self, found: Found | None) -> None:
        """Raises WaitedTooLong where waiting is over, or never will be."""
        phase = self._enter(found)
        if phase is None or self.unheard:
            return
        what = f"{found.reason}: {found.message}" if found is not None else "the cluster says nothing of it"
        if found is not None and found.reason in HOPELESS:
            raise WaitedTooLong(
                f"JobSet {self._name} can never begin: {what}: correct image: in the target file, and run again"
            )
        allowed_s = self._allowed_s(phase, found)
        if allowed_s is not None and self._waited_s(phase) > allowed_s:
            kind = "for its turn" if phase.limit == "queue_s" else "for its pods to start"
            alone = " where nobody else has the quota" if allowed_s != phase.allowed_s else ""
            raise WaitedTooLong(
                f"JobSet {self._name} waited {self._waited_s(phase):.0f} s {kind}, limits.{phase.limit} is "
                f"{allowed_s:g}{alone}: {what}: {_MENDED}",
                "unqueued" if found is None or found.reason == NO_WORKLOAD else "waited",
            )

    def told(self, found: Found, now: float) -> str:
        """Returns since when it waits and until when at most; empty where it does not. `now`: since the epoch."""
        phase = self._enter(found)
        if phase is None:
            return ""
        waited_s = self._waited_s(phase)
        since = f"waits since {_at(now - waited_s)}"
        allowed_s = self._allowed_s(phase, found)
        if allowed_s is None:
            return f"{since}, without end"
        return f"{since}, at most until {_at(now + allowed_s - waited_s)} (limits.{phase.limit})"

    def _allowed_s(self, phase: _Phase, found: Found | None) -> float | None:
        """Returns how long it may wait: for others as long as is said, for nobody no longer than Kueue needs."""
        others = found is not None and verdict(found.message) == "waits"
        if phase.limit != "queue_s" or self._alone_s is None or others:
            return phase.allowed_s
        return self._alone_s

    def _enter(self, found: Found | None) -> _Phase | None:
        limit = _PHASES.get(found.state) if found is not None else "queue_s"
        if self._phase is None or self._phase.limit != limit:
            if self._phase is not None:
                self._spent[self._phase.limit] = self._waited_s(self._phase)
            allowed_s = getattr(self._limits, limit) if limit else None
            self._phase = _Phase(limit, allowed_s, self._clock()) if limit else None
        return self._phase

    def _waited_s(self, phase: _Phase) -> float:
        return self._spent[phase.limit] + self._clock() - phase.began


def _at(seconds: float) -> str:
    return time.strftime("%m-%d %H:%M:%S UTC", time.gmtime(seconds))
