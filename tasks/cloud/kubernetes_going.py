"""Why an object that was asked to go stays, in words: a finalizer that nobody takes off, or a pod that still ends."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.cloud.kubernetes_kinds import Object

_TRACKING = "batch.kubernetes.io/job-tracking"
_DEPENDENTS = "foregroundDeletion"


def why_still(left: Sequence[Object]) -> str:
    """Returns what keeps the first of these that says so, a finalizer before a pod that still ends; empty where none of
    them was asked to go.
    """
    going = [one for one in left if one["metadata"].get("deletionTimestamp")]
    return next(filter(None, (*map(_held, going), *map(_ending, going))), "")


def _held(one: Object) -> str:
    """Returns which finalizer keeps an object.

    The Job controller takes its own off a pod that has ended, which is a change of a pod: Kueue's webhook is asked
    about that as well, and while Kueue is down no pod of any Job goes.
    """
    held = [text for text in one["metadata"].get("finalizers") or () if text != _DEPENDENTS]
    theirs = [text for text in held if text != _TRACKING]
    if not held or _goes_on(one):
        return ""
    if theirs:
        return (
            f"{_what(one)} is held by the finalizer {', '.join(theirs)}, for whoever put it there to take off"
        )
    return (
        f"{_what(one)} has ended and keeps its finalizer {_TRACKING}, which Kubernetes cannot take off while a webhook "
        "for pods does not answer: see whether Kueue runs (kubectl get pods --namespace kueue-system)"
    )


def _ending(one: Object) -> str:
    """Returns where a pod still ends."""
    node = (one.get("spec") or {}).get("nodeName")
    if not node or not _goes_on(one):
        return ""
    return f"{_what(one)} ends within its grace, or when its node {node} answers again"


def _goes_on(one: Object) -> bool:
    return one.get("kind") == "Pod" and (one.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _what(one: Object) -> str:
    return f"{one.get('kind', 'object')} {one['metadata']['name']}"
