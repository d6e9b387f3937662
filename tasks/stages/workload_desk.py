"""Where workloads are asked about: one namespace of one cluster, and what is there by its name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import NotServed, PermissionDenied
from tasks.cloud.kubernetes_gke import GkeName
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, JOB_SET, NAMESPACE, Kind
from tasks.targets.kube_objects import Object, name


@dataclass(frozen=True)
class Desk:
    """Where workloads are asked about: a cluster's API, a namespace, and what cluster of GKE it is, if it is one."""

    kube: Kubernetes
    namespace: str
    gke: GkeName | None = None
    flags: str = ""
    """By which flags commands find here."""

    def all(self, kind: Kind, labels: str | None = None, namespace: str | None = None) -> Sequence[Object]:
        """Returns all objects of a kind; none where the cluster knows no such kind."""
        try:
            return self.kube.list(kind, namespace or self.namespace, labels=labels).items
        except NotServed:
            return ()

    def everywhere(self, kind: Kind) -> Sequence[Object]:
        """Returns all objects of a kind in all namespaces, or in ours where we may not see more."""
        try:
            return self.all(kind, namespace=ALL_NAMESPACES)
        except PermissionDenied:
            return self.all(kind)


def the_jobset(desk: Desk, workload: str) -> Object:
    """Returns a JobSet by its name. Raises BadInput, with what is like it, when there is none."""
    found = desk.kube.find(JOB_SET, workload, desk.namespace)
    if found is not None:
        return found
    there = [name(one) for one in desk.kube.list(JOB_SET, desk.namespace).items]
    near = difflib.get_close_matches(workload, there, n=3)
    fix = f"did you mean {' or '.join(near)}?" if near else "see slicebench workload list"
    raise BadInput(
        f"there is no workload {workload} in namespace {desk.namespace} of {desk.kube.access.name}", fix=fix
    )


def refuse_missing_namespace(desk: Desk) -> None:
    """Raises BadInput where there is no such namespace, as far as we may see: that nothing is in it says little."""
    try:
        if desk.kube.find(NAMESPACE, desk.namespace) is not None:
            return
        there = [name(one) for one in desk.kube.list(NAMESPACE).items]
    except PermissionDenied:
        return
    known = ", ".join(there[:8]) + (" …" if len(there) > 8 else "")
    raise BadInput(
        f"there is no namespace {desk.namespace} in {desk.kube.access.name}", fix=f"there are: {known}"
    )
