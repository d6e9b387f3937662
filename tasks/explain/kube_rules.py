"""Known troubles on Kubernetes, the root first: each rule looks at a JobSet's objects and says what they show."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.explain import (
    kube_beside,
    kube_ended,
    kube_evicted,
    kube_nodes,
    kube_queues,
    kube_running,
    kube_told,
    kube_waiting,
)
from tasks.explain.kube_scene import KubeRule, KubeScene
from tasks.explain.scene import Trouble
from tasks.targets.kube_found import KubeState


def kube_troubles(scene: KubeScene) -> list[Trouble]:
    """Returns all troubles that a JobSet shows; none for one that succeeded, and none for what is usual."""
    if scene.found.state == KubeState.SUCCEEDED:
        return []
    found: dict[str, Trouble] = {}
    for rule in KUBE_RULES:
        if (trouble := rule(scene)) is not None:
            found.setdefault(trouble.name, trouble)
    return list(found.values())


KUBE_RULES: Sequence[KubeRule] = (
    kube_running.deleted,
    kube_waiting.unknown_priority_class,
    kube_queues.no_queue,
    kube_waiting.never_fits,
    kube_waiting.no_flavor,
    kube_evicted.evicted,
    kube_waiting.waits_for_turn,
    kube_waiting.no_workload,
    kube_waiting.admission_check,
    kube_waiting.jobs_refused,
    kube_running.no_node,
    kube_running.image_pull,
    kube_running.cannot_start,
    kube_running.out_of_memory,
    kube_nodes.node_lost,
    kube_running.taken_away,
    kube_running.deadline,
    kube_running.names_do_not_resolve,
    kube_running.init_hang,
    kube_beside.sidecar,
    kube_running.crash_loop,
    kube_running.program_failed,
    kube_ended.end_not_seen,
    kube_told.webhook_of_scene,
)
