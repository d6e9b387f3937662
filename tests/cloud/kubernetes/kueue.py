"""Kueue's controllers: JobSets to Workloads, Workloads to quota, and what the queues say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes.kueue_admission import Admission
from tests.cloud.kubernetes.kueue_jobs import JOBSETS, WORKLOADS, Jobs
from tests.cloud.kubernetes.kueue_queues import Queues
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import Change, Key

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

_ONCE: Key = ("scheduler", "", "")
_MATTERS = (
    WORKLOADS,
    "localqueues.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
)
_CLASSES = ("workloadpriorityclasses.kueue.x-k8s.io", "priorityclasses.scheduling.k8s.io")


def runners(world: World) -> list[Runner]:
    """Returns the controllers."""
    jobs = Jobs(world)

    def keys(change: Change) -> Iterable[Key]:
        if change.key[0] == JOBSETS:
            yield change.key
        elif change.key[0] in (WORKLOADS, "jobs.batch"):
            for owner in change.obj["metadata"].get("ownerReferences") or []:
                yield (JOBSETS, change.key[1], owner["name"])
        elif change.key[0] in _CLASSES:
            for one in world.store.each(JOBSETS):
                yield (JOBSETS, one["metadata"]["namespace"], one["metadata"]["name"])

    return [
        Runner(world, "kueue", keys, jobs.reconcile),
        Runner(world, "kueue", _scheduling, Admission(world).cycle),
        Runner(world, "kueue", _scheduling, Queues(world).tell),
    ]


def _scheduling(change: Change) -> Iterable[Key]:
    if change.key[0] in _MATTERS:
        yield _ONCE
