"""Makes the queue of a cluster have what its machines have: objects of ours are repaired, those of others stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import Conflict, shortened
from tasks.cloud.kubernetes_kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, Kind, Object
from tasks.targets.kube_objects import metadata, name
from tasks.targets.kube_queues import (
    CLUSTER_QUEUE_NAME,
    LOCAL_QUEUE_NAME,
    MANAGED,
    Flavor,
    manifests,
    priority_classes,
)

Say = Callable[[str], None]


def queue_up(api: Kubernetes, wanted: Sequence[Flavor], say: Say) -> None:
    """Makes the queue have exactly these flavors. A ClusterQueue of another's making is left alone, and told."""
    for kind, manifest in priority_classes():
        _priority(api, kind, manifest, say)
    there = api.find(CLUSTER_QUEUE, CLUSTER_QUEUE_NAME)
    if there is not None and not _ours(there):
        say(f"ClusterQueue {CLUSTER_QUEUE_NAME} was not made by slicebench: its quota stays as it is")
    for kind, manifest in manifests(wanted, api.access.namespace):
        other = None
        if kind is LOCAL_QUEUE:
            other = api.find(kind, LOCAL_QUEUE_NAME)
        elif there is not None and not _ours(there):
            continue
        elif kind is not CLUSTER_QUEUE:
            other = api.find(kind, name(manifest))
        if other is not None and not _ours(other):
            say(f"{kind.name} {name(manifest)} was not made by slicebench: it stays as it is")
            continue
        apply(api, manifest, kind, say)
    keep = {one.name for one in wanted}
    for flavor in api.list(RESOURCE_FLAVOR, labels=MANAGED).items:
        if name(flavor) not in keep:  # it goes once no workload runs under it any more
            say(f"taking away the flavor {name(flavor)}: there are no such machines any more")
            api.delete(RESOURCE_FLAVOR, name(flavor))


def _priority(api: Kubernetes, kind: Kind, manifest: Object, say: Say) -> None:
    there = api.find(kind, name(manifest))
    if there is None:
        apply(api, manifest, kind, say)
    elif there.get("value") != manifest["value"]:  # values cannot be changed
        say(
            f"priority class {name(manifest)} has the value {there.get('value')} here, and not {manifest['value']}"
        )


def apply(api: Kubernetes, manifest: Object, kind: Kind, say: Say) -> None:
    """Makes an object of ours be as it should; fields that somebody else set otherwise are taken over, and told."""
    try:
        api.apply(manifest, kind=kind, force=False)
    except Conflict as error:
        say(f"taking over what others changed of {kind.name} {name(manifest)}: {_conflict(error)}")
        api.apply(manifest, kind=kind, force=True)


def _ours(there: Object) -> bool:
    return MANAGED.items() <= (metadata(there).get("labels") or {}).items()


def _conflict(error: Conflict) -> str:
    return shortened(str(error).partition("conflict")[2].lstrip("s: ") or str(error))
