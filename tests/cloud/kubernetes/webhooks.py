"""The webhooks of JobSet and Kueue: what they change in objects, what they refuse, and that all fails without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cloud.kubernetes import jobset_rules, kueue_rules, placement, refusals
from tests.cloud.kubernetes.names import SAY_SUBDOMAIN, SUBDOMAIN
from tests.cloud.kubernetes.resources import Resource
from tests.cloud.kubernetes.store import Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World

QUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_GROUP = "kueue.x-k8s.io"
_PATHS = {
    "jobsets.jobset.x-k8s.io": ("mjobset.kb.io", "/mutate-jobset-x-k8s-io-v1alpha2-jobset"),
    "jobs.batch": ("mjob.kb.io", "/mutate-batch-v1-job"),
    "pods": ("mpod.kb.io", "/mutate--v1-pod"),
    "deployments.apps": ("mdeployment.kb.io", "/mutate-apps-v1-deployment"),
}


def creating(world: World, resource: Resource, obj: Obj) -> None:
    """Asks the webhooks about a new object."""
    _reachable(world, resource, obj)
    match resource.qualified:
        case "jobsets.jobset.x-k8s.io":
            jobset_rules.check(obj)
            _queue_name(world, obj)
            if world.registry.serves("workloads.kueue.x-k8s.io") and QUEUE in (
                obj["metadata"].get("labels") or {}
            ):
                obj["spec"]["suspend"] = True
        case "clusterqueues.kueue.x-k8s.io":
            kueue_rules.check(obj)
        case "pods":
            placement.admit(world, obj)


def updating(world: World, resource: Resource, obj: Obj, old: Obj) -> None:
    """Asks the webhooks about a changed object."""
    if obj == old:
        return
    _reachable(world, resource, obj)
    if resource.qualified == "clusterqueues.kueue.x-k8s.io":
        kueue_rules.check(obj)
    if resource.qualified == "localqueues.kueue.x-k8s.io":
        kueue_rules.check_local_update(obj, old)
    if resource.qualified == "jobsets.jobset.x-k8s.io":
        jobset_rules.check_update(obj, old)
        was = (old["metadata"].get("labels") or {}).get(QUEUE)
        now = (obj["metadata"].get("labels") or {}).get(QUEUE)
        if was != now and was is not None and not old["spec"].get("suspend"):
            told = f'metadata.labels[{QUEUE}]: Invalid value: "{now or ""}": field is immutable'
            raise refusals.denied("vjobset.kb.io", told)


def hold_pods(world: World, space: str) -> bool:
    """Says whether no pod of a namespace can be changed: Kueue's webhook is asked about that, and is down."""
    there = world.registry.serves("workloads.kueue.x-k8s.io")
    return there and not world.runs("kueue") and space not in ("kube-system", "kueue-system")


def _queue_name(world: World, obj: Obj) -> None:
    queue = (obj["metadata"].get("labels") or {}).get(QUEUE)
    if queue and world.registry.serves("workloads.kueue.x-k8s.io") and not SUBDOMAIN.fullmatch(queue):
        told = f'metadata.labels[{QUEUE}]: Invalid value: "{queue}": {SAY_SUBDOMAIN}'
        raise refusals.denied("vjobset.kb.io", told)


def _reachable(world: World, resource: Resource, obj: Obj) -> None:
    installed_kueue = world.registry.serves("workloads.kueue.x-k8s.io")
    installed_jobset = world.registry.serves("jobsets.jobset.x-k8s.io")
    jobset_kinds = resource.qualified == "jobsets.jobset.x-k8s.io" or (
        resource.qualified == "pods"
        and "jobset.sigs.k8s.io/jobset-name" in (obj["metadata"].get("labels") or {})
    )
    kueue_kinds = resource.qualified in _PATHS or (
        resource.group == _KUEUE_GROUP and resource.kind in ("Workload", "ClusterQueue", "ResourceFlavor")
    )
    space = obj["metadata"].get("namespace", "")
    if (
        installed_kueue
        and kueue_kinds
        and not world.runs("kueue")
        and space not in ("kube-system", "kueue-system")
    ):
        name = f"m{resource.kind.lower()}.kb.io"
        path = f"/mutate-kueue-x-k8s-io-v1beta2-{resource.kind.lower()}"
        name, path = _PATHS.get(resource.qualified, (name, path))
        raise refusals.webhook_down(name, "kueue-webhook-service.kueue-system", path)
    if installed_jobset and jobset_kinds and not world.runs("jobset"):
        name, path = _PATHS[resource.qualified]
        raise refusals.webhook_down(name, "jobset-webhook-service.jobset-system", path)
