"""Known troubles: each rule looks at what was recorded of a run and names one, with its evidence and the next command.

A rule says only what its evidence says. Text rules look for words that programs really write; what they cannot
know they leave to the command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks.explain import access, cloud, kube_told, workload
from tasks.explain.scene import Scene, Trouble

Rule = Callable[[Scene], Trouble | None]


def troubles(scene: Scene) -> list[Trouble]:
    """Returns all troubles that the scene shows, the likely root first: what slicebench said comes before what
    only stands in a log, and what follows from others comes last.
    """
    found = [trouble for rule in RULES if (trouble := rule(scene))]
    return sorted(found, key=lambda one: (one.follows, not any(line.said for line in one.evidence)))


RULES: Sequence[Rule] = (
    cloud.lease_leaked,
    workload.out_of_disk,
    workload.results_torn,
    workload.out_of_memory,
    access.host_key_changed,
    access.host_key_unknown,
    access.agent_refused,
    access.os_login,
    access.public_key_denied,
    access.iap_refused,
    access.unreachable,
    access.package_lock,
    cloud.no_quota,
    cloud.no_capacity,
    cloud.not_permitted,
    cloud.waits_for_hardware,
    kube_told.webhook_down,
    kube_told.never_fits,
    kube_told.queue_missing,
    kube_told.wrong_hardware,
    kube_told.waits_in_queue,
    kube_told.preempted,
    kube_told.bad_pod_template,
    kube_told.image_pull,
    kube_told.container,
    kube_told.no_workload,
    kube_told.no_node,
    kube_told.evicted,
    kube_told.deleted,
    kube_told.time_limit,
    kube_told.names_do_not_resolve,
    kube_told.crash,
    workload.not_importable,
    workload.wrong_data,
    workload.init_hang,
    workload.deadline,
    workload.worker_killed,
    workload.slicebench_killed,
    workload.worker_down,
    workload.echo_of_a_failure,
)
