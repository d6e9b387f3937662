"""Makes the queue of a cluster have what its machines have: objects of ours are repaired, those of others stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import Conflict, shortened
from tasks.cloud.kubernetes_kinds import (
    ALL_NAMESPACES,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    Kind,
    Object,
)
from tasks.cloud.labels import LEASE
from tasks.targets.kube_excess import excess, without
from tasks.targets.kube_objects import metadata, name, spec
from tasks.targets.kube_objects import namespace as namespace_of
from tasks.targets.kube_queues import (
    CLUSTER_QUEUE_NAME,
    LOCAL_QUEUE_NAME,
    MANAGED,
    Flavor,
    manifests,
    priority_classes,
)
from tasks.targets.kube_teams import TEAM, Teams, queues

Say = Callable[[str], None]


def queue_up(api: Kubernetes, wanted: Sequence[Flavor], say: Say, teams: Teams | None = None) -> None:
    """Makes the queue have exactly these flavors. A ClusterQueue of another's making is left alone, and told.

    `teams` divide it, and see to their LocalQueues themselves; None: nobody says so, and where some do, they stay.
    """
    for kind, manifest in priority_classes():
        _priority(api, kind, manifest, say)
    queue = api.find(CLUSTER_QUEUE, CLUSTER_QUEUE_NAME)
    theirs = queue is not None and not ours(queue)
    if theirs:
        say(f"ClusterQueue {CLUSTER_QUEUE_NAME} was not made by slicebench: its quota stays as it is")
    if teams is None and api.list(CLUSTER_QUEUE, labels=f"{TEAM}").items:
        say("what teams have of the quota stays as it is: `slicebench env up` divides what there is now")
        return
    for kind, manifest in objects_of(wanted, api.access.namespace, teams):
        if theirs and kind is not LOCAL_QUEUE:
            continue
        there = api.find(kind, name(manifest))
        if there is not None and not ours(there):
            say(f"{kind.name} {name(manifest)} was not made by slicebench: it stays as it is")
            continue
        apply(api, manifest, kind, say)
    _take_away_flavors(api, {one.name for one in wanted}, say)


def objects_of(wanted: Sequence[Flavor], namespace: str, teams: Teams | None) -> list[tuple[Kind, Object]]:
    """Returns the objects of the queue, of the teams' as well: without any LocalQueue where there are teams."""
    usual = manifests(wanted, namespace)
    if teams is None:
        return usual
    flavors = [(kind, one) for kind, one in usual if kind not in (CLUSTER_QUEUE, LOCAL_QUEUE)]
    return [*flavors, *queues(wanted, teams)]


def enter(api: Kubernetes, manifest: Object, say: Say) -> None:
    """Makes a LocalQueue lead to its ClusterQueue. One that leads elsewhere is made anew: Kueue changes none."""
    meta = metadata(manifest)
    there = api.find(LOCAL_QUEUE, name(manifest), meta["namespace"])
    leads, wanted = (spec(one).get("clusterQueue") if one else None for one in (there, manifest))
    if there is not None and leads != wanted:
        say(f"queue {name(manifest)} in {meta['namespace']} leads to {wanted} from now on, not to {leads}")
        api.delete(LOCAL_QUEUE, name(manifest), meta["namespace"])
    apply(api, manifest, LOCAL_QUEUE, say)


def take_out(api: Kubernetes, kind: Kind, manifest: Object) -> None:
    """Takes out of an object of ours what others wrote into it, and what changes what it means."""
    space = metadata(manifest).get("namespace")
    there = api.find(kind, name(manifest), space)
    if there is None or not ours(there):
        return
    if found := list(excess(manifest, there)):
        api.patch(kind, name(manifest), without(found), space)


def take_away_teams(api: Kubernetes, keep: Collection[str], say: Say) -> None:
    """Deletes the ClusterQueues of teams that have no slices of their own any more."""
    for queue in api.list(CLUSTER_QUEUE, labels=TEAM).items:
        if name(queue) not in keep and ours(queue):
            say(f"taking away the queue {name(queue)}: the team has no slices of its own any more")
            api.delete(CLUSTER_QUEUE, name(queue))  # it goes once no workload runs under it any more


def entrances_beyond(api: Kubernetes, keep: Collection[str]) -> list[str]:
    """Returns the namespaces beyond these in which slicebench made a queue that stands."""
    return [
        namespace_of(queue)
        for queue in api.list(LOCAL_QUEUE, ALL_NAMESPACES, labels=MANAGED).items
        if name(queue) == LOCAL_QUEUE_NAME
        and namespace_of(queue) not in keep
        and LEASE not in metadata(queue)["labels"]
    ]


def take_away_entrances(api: Kubernetes, keep: Collection[str], say: Say) -> None:
    """Deletes the queues of namespaces that nobody names any more. What runs goes on, what waits does not get in."""
    for space in entrances_beyond(api, keep):
        say(f"taking away the queue {LOCAL_QUEUE_NAME} in {space}: the file does not name that any more")
        api.delete(LOCAL_QUEUE, LOCAL_QUEUE_NAME, space)


def _take_away_flavors(api: Kubernetes, keep: Collection[str], say: Say) -> None:
    """Deletes the flavors of machines that are no more; those that are under leases go with them, not with ours."""
    for flavor in api.list(RESOURCE_FLAVOR, labels=MANAGED).items:
        if name(flavor) not in keep and LEASE not in metadata(flavor)["labels"]:
            say(f"taking away the flavor {name(flavor)}: there are no such machines any more")
            api.delete(RESOURCE_FLAVOR, name(flavor))  # it goes once no workload runs under it any more


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


def ours(there: Object) -> bool:
    """Whether slicebench made an object that is in a cluster for good."""
    return MANAGED.items() <= (metadata(there).get("labels") or {}).items()


def _conflict(error: Conflict) -> str:
    return shortened(str(error).partition("conflict")[2].lstrip("s: ") or str(error))
