"""How what stands beside the program of a pod is: up, ended and started again, or never up. Pure, from the pod alone.

It is a container that the cluster has up before the program's and starts again whenever it ends (an initContainer with
restartPolicy Always). What it does once the program has ended, or the pod is to go, means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.targets.kube_objects import Object, metadata, name, number, seconds, spec, status
from tasks.targets.kube_pods import CANNOT_START, of_one_kind

TRIES = 3
"""So often one may end without ever having been up: what it needs may come a moment after its pod."""

NOT_UP = "SidecarNotUp"
"""The reason of a workload that does not begin because of one."""

_NEVER = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""What no wait mends: pods name their images for good."""


@dataclass(frozen=True)
class Standing:
    """One such container of one pod. `ends`: how often it has ended; `code`, `reason` and `lasted_s` are of the last.

    `up`: it runs, and has passed its startup probe; `was_up`: it was once, for the program was started. `allowed_s`:
    how long its probe waits for that; None: it has none. `waits`: a word for what it waits for, `message` many.
    """

    pod: str
    uid: str
    container: str
    ends: int = 0
    code: int | None = None
    reason: str = ""
    lasted_s: float | None = None
    up: bool = False
    was_up: bool = False
    allowed_s: float | None = None
    waits: str = ""
    message: str = ""

    @property
    def place(self) -> str:
        """Which it is, in words."""
        return f"pod {self.pod}: container {self.container}"

    @property
    def end(self) -> str:
        """How it ended last, in words."""
        told = f" ({self.reason})" if self.reason not in ("", "Error", "Completed") else ""
        return f"exited with {self.code}{told}"

    def never_up(self) -> str:
        """Returns why it will not be up, in words; empty while it may be, or where it was."""
        if self.was_up or self.up:
            return ""
        if self.waits in _NEVER:
            return f"{self.waits}: {self.message}"
        if self.ends and self._took_too_long:
            return f"it was not up within {self.allowed_s:g} s, by its startup probe, and {self.end} then"
        if self.ends >= TRIES:
            return f"it ended {self.ends} times before it was up, and {self.end} at last"
        return ""

    def stuck(self) -> str:
        """Returns what it waits for that does not come by itself, and is no end of its own; empty: nothing."""
        waits = self.waits in CANNOT_START and self.waits != "CrashLoopBackOff"
        return f"{self.waits}: {self.message}" if waits and not self.was_up else ""

    @property
    def _took_too_long(self) -> bool:
        """Whether it ran for as long as its probe waits. Times of a kubelet have whole seconds only."""
        return None not in (self.lasted_s, self.allowed_s) and self.lasted_s >= self.allowed_s - 1  # type: ignore[operator]


def standing(pod: Object) -> Iterator[Standing]:
    """Yields what stands beside the program of a pod, while that is yet to begin, or runs."""
    mains = status(pod).get("containerStatuses") or ()
    if metadata(pod).get("deletionTimestamp") or status(pod).get("phase") in ("Succeeded", "Failed"):
        return
    if any((one.get("state") or {}).get("terminated") for one in mains):
        return
    begun = any(_has_begun(one) for one in mains)
    told = {one.get("name"): one for one in status(pod).get("initContainerStatuses") or ()}
    for container in spec(pod).get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield _standing(pod, container, told.get(container.get("name")) or {}, begun)


def _standing(pod: Object, container: Object, told: Object, begun: bool) -> Standing:
    state, before = told.get("state") or {}, (told.get("lastState") or {}).get("terminated")
    waiting, now = state.get("waiting") or {}, state.get("terminated")
    last = now or before or {}
    # Of one that waits to be started again the start that ended is not counted yet.
    over = bool(now) or bool(waiting and before)
    began, ended = seconds(last.get("startedAt")), seconds(last.get("finishedAt"))
    probe = container.get("startupProbe") or {}
    return Standing(
        name(pod),
        str(metadata(pod).get("uid")),
        str(container.get("name")),
        ends=number(told.get("restartCount")) + over,
        code=number(last.get("exitCode")) if last else None,
        reason=str(last.get("reason") or ""),
        lasted_s=None if began is None or ended is None else ended - began,
        up=bool(told.get("started")) and "running" in state,
        was_up=begun,
        allowed_s=probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3) if probe else None,
        waits=of_one_kind(str(waiting.get("reason") or "")),
        message=str(waiting.get("message") or ""),
    )


def _has_begun(container: Object) -> bool:
    state = container.get("state") or {}
    return "running" in state or "terminated" in state or bool(container.get("lastState"))
