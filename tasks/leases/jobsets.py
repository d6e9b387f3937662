"""The inventory of JobSets, known by their labels, in all clusters and namespaces that the ledger names.

A JobSet is gone when its pods are: after it is deleted they still end, on chips that nobody else can have by then. Its
Secret goes with it, for it owns that. It is gone as well when its cluster is deleted, where that can be known.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_going import why_still
from tasks.cloud.kubernetes_kinds import JOB_SET, POD, Object
from tasks.cloud.kubernetes_labels import JOBSET_NAME, JOBSET_UID
from tasks.cloud.kubernetes_places import ClusterGone, cluster_at, is_by_name, is_known_here
from tasks.cloud.labels import LEDGER, read_labels
from tasks.cloud.timing import Timing
from tasks.leases.cluster_scopes import scopes_with
from tasks.leases.inventory import Found, Pace, PartlyListed
from tasks.leases.ledger import Ledger
from tasks.leases.resource import JOBSET as JOBSET
from tasks.leases.resource import ResourceRef
from tasks.leases.together import together

_ENDS = ("Completed", "Failed")
_TIMING = Timing(total_s=30.0)
"""Short: whoever releases looks again and again, and renews in between."""
_LOOK_S, _KILLED_S = 0.2, 5.0
_AT_ONCE = 8
"""Clusters that are listed at once: one that is away holds up no other."""
_SAME_S = 3.0
"""For so long a cluster is taken to be where it was; that it is deleted shows later by as much."""


class JobSetInventory:
    """See Inventory. A scope is a cluster and a namespace, see kubernetes_places; a name alone may be anybody's."""

    kind = JOBSET
    pace = Pace(look_every_s=0.3, goes_within_s=300.0, remote=True, silent_s=120.0)
    settle_s = 5.0
    after: frozenset[str] = frozenset()

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._open: dict[str, tuple[float, Kubernetes]] = {}

    def sees(self, scope: str) -> bool:
        """See Inventory. This machine must have a context of that name; clusters of GKE are seen from anywhere."""
        return is_known_here(scope)

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory. Looks wherever the lease made some; for a lease that is not known, wherever any did."""
        scopes = list(scopes_with(self._ledger, JOBSET, lease_id))
        answers = together([partial(self._answer, scope) for scope in scopes], _AT_ONCE)
        found = [one for those in answers if not isinstance(those, InfrastructureError) for one in those]
        silent = {
            scope.partition("/")[0]: error
            for scope, error in zip(scopes, answers, strict=True)
            if isinstance(error, InfrastructureError)
        }
        mine = [one for one in found if lease_id in (None, one.lease_id)]
        if silent:
            raise PartlyListed(self.kind, mine, silent)
        return mine

    def _answer(self, scope: str) -> Sequence[Found] | InfrastructureError:
        try:
            return self.labelled_in(scope)
        except ClusterGone:
            return ()
        except InfrastructureError as error:
            return error

    def labelled_in(self, scope: str) -> Sequence[Found]:
        """Returns all of this ledger's in one scope. Raises ClusterGone, InfrastructureError."""
        return list(self._in(self._at(scope), scope))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. Without a uid its name and this ledger's label tell it; they name one lease only."""
        try:
            cluster = self._at(ref.scope)
        except ClusterGone:
            return None
        there = cluster.find(JOB_SET, ref.name)
        if ref.uid is None:
            return replace(ref, uid=_uid(there)) if there is not None and self._is_ours(there) else None
        if there is not None and _uid(there) == ref.uid:
            return ref
        return ref if _pods(cluster, ref.uid) else None

    def has_ended(self, ref: ResourceRef) -> bool:
        """See Watched."""
        try:
            there = self._at(ref.scope).find(JOB_SET, ref.name)
        except ClusterGone:
            return True
        if there is None or _uid(there) != ref.uid:
            return True
        return bool((there.get("status") or {}).get("terminalState"))

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. Not forced, pods have their own grace; forced, a second."""
        try:
            cluster = self._at(ref.scope)
        except ClusterGone:
            return
        if ref.uid is None and self.get(ref) is None:
            return
        cluster.delete(JOB_SET, ref.name, uid=ref.uid)
        if force and ref.uid is not None:
            hurry(cluster, ref.uid)

    def why_still(self, ref: ResourceRef) -> str:
        """See Telling: the JobSet itself is held, or its pods are."""
        try:
            cluster = self._at(ref.scope)
        except ClusterGone:
            return ""
        there = cluster.find(JOB_SET, ref.name)
        mine = [there] if there is not None and _uid(there) == ref.uid else []
        return why_still([*_pods(cluster, ref.uid), *mine] if ref.uid is not None else mine)

    def _at(self, scope: str) -> Kubernetes:
        """Returns the API of a scope's cluster; where GKE is asked for that, once for some seconds: looks are many.

        Raises ClusterGone.
        """
        since, cluster = self._open.get(scope, (-math.inf, None))
        if cluster is not None and time.monotonic() - since < _SAME_S:
            return cluster
        cluster = cluster_at(scope, _TIMING)
        if is_by_name(scope):
            self._open[scope] = (time.monotonic(), cluster)
        return cluster

    def _in(self, cluster: Kubernetes, scope: str) -> Iterator[Found]:
        """Yields what carries this ledger's label: JobSets, and those of which only pods are left."""
        ours = {LEDGER: self._ledger.id}
        seen: set[str] = set()
        for jobset in cluster.list(JOB_SET, labels=ours).items:
            if labelled := read_labels(jobset["metadata"].get("labels") or {}):
                name = jobset["metadata"]["name"]
                ref = ResourceRef(JOBSET, scope, name, _uid(jobset))
                seen.add(_uid(jobset))
                yield Found(labelled.lease_id, ref, _stays_until(jobset))
        for pod in cluster.list(POD, labels=ours).items:
            labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
            labelled, uid = read_labels(labels), labels.get(JOBSET_UID, "")
            if labelled and uid and uid not in seen:
                seen.add(uid)
                yield Found(labelled.lease_id, ResourceRef(JOBSET, scope, labels.get(JOBSET_NAME, ""), uid))

    def _is_ours(self, jobset: Object) -> bool:
        labelled = read_labels(jobset["metadata"].get("labels") or {})
        return labelled is not None and labelled.ledger_id == self._ledger.id


def _stays_until(jobset: Object) -> float | None:
    """Returns when JobSet takes one away that has ended; None while it goes on."""
    status, ttl_s = jobset.get("status") or {}, jobset["spec"].get("ttlSecondsAfterFinished")
    if not status.get("terminalState"):
        return None
    ended = [
        datetime.fromisoformat(one["lastTransitionTime"]).timestamp()
        for one in status.get("conditions") or ()
        if one.get("type") in _ENDS and one.get("status") == "True" and one.get("lastTransitionTime")
    ]
    return min(ended) + ttl_s if ended and ttl_s is not None else math.inf


def end(cluster: Kubernetes, name: str, uid: str, grace_s: float) -> None:
    """Deletes a JobSet and waits, at most `grace_s` and a little, until its pods are gone. Releasing looks again."""
    cluster.delete(JOB_SET, name, uid=uid)
    if not _gone(cluster, uid, grace_s):
        hurry(cluster, uid)
        _gone(cluster, uid, _KILLED_S)


def _gone(cluster: Kubernetes, uid: str, limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while _pods(cluster, uid):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
    return True


def hurry(cluster: Kubernetes, uid: str) -> None:
    """Leaves a second to the pods of a JobSet that was deleted. None is struck off without its node's word."""
    for pod in _pods(cluster, uid):
        cluster.delete(POD, pod["metadata"]["name"], uid=_uid(pod), grace_s=1)


def _pods(cluster: Kubernetes, uid: str) -> Sequence[Object]:
    return cluster.list(POD, labels={JOBSET_UID: uid}).items


def _uid(one: Object) -> str:
    return str(one["metadata"]["uid"])
