"""ResourceRef: one thing that exists outside, by the names that its inventory knows it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CLUSTER = "gke_cluster"
POOL = "gke_node_pool"
JOBSET = "jobset"
POLICY = "gce_resource_policy"
QUEUE = "kueue_queue"
"""Kinds, here for those who do without what looks at them, which takes long to import."""

SERVING = frozenset({POLICY, QUEUE})
"""Kinds of things that are there for others of their lease, and of no use without them."""


@dataclass(frozen=True)
class Resizing:
    """A change of how many machines something has, asked for and not seen to be done.

    `to`: so many were asked for. `back`: who finds it when the one that asked is dead brings it to so many, the fewer
    of before and after: what was to go goes, and nothing is made for somebody who is gone.
    """

    to: int
    back: int

    def __str__(self) -> str:
        if self.back == self.to:
            return f"only {self.to} machines are to stay"
        return f"{self.to} machines were asked for; until they are there, {self.back} are kept"


@dataclass(frozen=True)
class ResourceRef:
    """One thing outside. `ours` is false for what was there before: adopted, never deleted.

    `scope` is where the name counts: a host, a zone, a namespace. `uid` is None while only the intent to
    make it is known. `dead_man` says what ends it when everybody else is dead, "none" where nothing does.
    `inside` is the `key` of something else of the same lease that it is gone with: a process on a machine. When
    that is ours, only it is asked to go.
    `half`: it is on its way to be made, or to go: when who works on it dies, it goes, also where the rest stays.
    `resizing`: it stays, and its size is being changed.
    """

    kind: str
    scope: str
    name: str
    uid: str | None = None
    ours: bool = True
    dead_man: str = "none"
    inside: str = ""
    half: bool = False
    resizing: Resizing | None = None

    @property
    def key(self) -> str:
        """What tells it from all else."""
        return f"{self.kind} {self.scope} {self.name}"


def outermost(refs: Sequence[ResourceRef]) -> list[ResourceRef]:
    """Returns what is not inside something else of ours: that goes with it, and cannot be asked after it went."""
    going = {ref.key for ref in refs if ref.ours}
    return [ref for ref in refs if ref.inside not in going]
