"""Waits for what is left of an earlier workload of the same name, whose JobSet is gone: a new one would be in its way.

Its pods answer to the same host names, and may hold the hardware. Its Secret has the name of ours, and goes when the
cluster gets round to it: seconds after its JobSet.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_going import why_still
from tasks.cloud.kubernetes_kinds import JOB_SET, POD, SECRET, Object
from tasks.cloud.kubernetes_labels import JOBSET_NAME
from tasks.stages.workload_lease import taken

_LOOK_S, _GOING_S = 0.5, 300.0
"""How long is waited for an earlier workload of the name to end, seconds, and how often is looked."""


def await_earlier(kube: Kubernetes, name: str, say: Callable[[str], None], *, secret: str = "") -> None:
    """Waits until nothing of an earlier JobSet of the name is left: no pod, nor the Secret that ours is to have.

    Raises BadInput when that one goes on, or the Secret is no workload's.
    """
    until, told = time.monotonic() + _GOING_S, ""
    while left := _left(kube, name, secret):
        if left != told:
            say(
                f"waiting for {left} of an earlier workload {name}, which still end{'' if 'pods' in left else 's'}"
            )
            told = left
        if time.monotonic() > until:
            why = why_still(kube.list(POD, labels={JOBSET_NAME: name}).items)
            raise InfrastructureError(
                f"{told} of an earlier workload {name} still there after {_GOING_S:g} s: choose another name; "
                f"{why or 'see why by slicebench workload list'}"
            )
        time.sleep(_LOOK_S)


def _left(kube: Kubernetes, name: str, secret: str) -> str:
    """Returns what is left, in words; empty: nothing is."""
    pods = kube.list(POD, labels={JOBSET_NAME: name}).items
    kept = _found(kube, secret) if secret else None
    if not pods and kept is None:
        return ""
    there = kube.find(JOB_SET, name)
    if there is not None and not there["metadata"].get("deletionTimestamp"):
        raise taken(kube, name)
    if kept is not None and not _goes_with(kept, name):
        raise BadInput(
            f"there is a Secret {secret} in namespace {kube.access.namespace} of {kube.access.name}, and secrets of "
            f"{name} are to be in one of that name",
            fix="choose another name, or delete it",
        )
    return counted(len(pods), "pod") if pods else f"Secret {secret}"


def _found(kube: Kubernetes, secret: str) -> Object | None:
    try:
        return kube.find(SECRET, secret)
    except PermissionDenied:  # who may make Secrets may not have to see them
        return None


def _goes_with(kept: Object, name: str) -> bool:
    """Whether a Secret is on its way out, or goes with a JobSet of the name."""
    metadata = kept["metadata"]
    owners = metadata.get("ownerReferences") or []
    return bool(metadata.get("deletionTimestamp")) or any(
        (one.get("kind"), one.get("name")) == ("JobSet", name) for one in owners
    )
