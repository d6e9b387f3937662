"""Why an object that was asked to go stays, in words: a finalizer that nobody takes off, or a pod that still ends."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.cloud.kubernetes_kinds import Object

_TRACKING = "batch.kubernetes.io/job-tracking"
_DEPENDENTS = "foregroundDeletion"


def why_still(left: Sequence[Object]) -> str:
    """Returns what keeps the first of these that says so; empty where none of them was asked to go."""
    going = [one for one in left if one["metadata"].get("deletionTimestamp")]
    return next(filter(None, map(_why, going)), "")


def _why(one: Object) -> str:
    """Returns what keeps one object that was asked to go.

    The Job controller takes its own finalizer off a pod that has ended, which is a change of a pod: Kueue's webhook is
    asked about that as well, and while Kueue is down no pod of any Job goes.
    """
    metadata, kind = one["metadata"], one.get("kind", "object")
    what = f"{kind} {metadata['name']}"
    if kind == "Pod" and (one.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
        node = (one.get("spec") or {}).get("nodeName")
        return f"{what} ends within its grace, or when its node {node} answers again" if node else ""
    held = [text for text in metadata.get("finalizers") or () if text != _DEPENDENTS]
    if held == [_TRACKING]:
        return (
            f"{what} has ended and keeps its finalizer {_TRACKING}, which Kubernetes cannot take off while a webhook "
            "for pods does not answer: see whether Kueue runs (kubectl get pods --namespace kueue-system)"
        )
    theirs = [text for text in held if text != _TRACKING]
    if theirs:
        return f"{what} is held by the finalizer {', '.join(theirs)}, for whoever put it there to take off"
    return ""
