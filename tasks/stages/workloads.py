"""Workloads of a cluster, whoever made them: listed, picked by name, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import JOB, JOB_SET, LOCAL_QUEUE, POD, WORKLOAD
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.cloud.labels import LEASE, OWNER, SUBMISSION
from tasks.stages.workload_desk import Desk, the_jobset
from tasks.targets.kube_objects import Object, label, name
from tasks.targets.kube_rows import Row, matching, rows

_OF_JOBSETS = JOBSET_UID
"""A selector: whatever has this label."""


def listing(desk: Desk, which: str, job: str) -> list[Row]:
    """Returns the workloads of a namespace that the filters let through. Raises BadInput, KubernetesError."""
    rows([], which, job)  # refuses wrong filters before anything is asked
    return [one for one in rows(_known(desk), which, job) if one.namespace == desk.namespace]


def chosen(
    desk: Desk, names: Sequence[str], pattern: str | None, *, missing_ok: bool = False
) -> list[Object]:
    """Returns the JobSets that are meant, by name or by a regular expression.

    Raises BadInput for names of none, unless they may be missing.
    """
    if pattern is not None:
        matches = matching(pattern)
        return [one for one in desk.all(JOB_SET) if matches(name(one))]
    if missing_ok:
        there = (desk.kube.find(JOB_SET, one, desk.namespace) for one in names)
        return [one for one in there if one is not None]
    return [the_jobset(desk, one) for one in names]


def whose(jobset: Object) -> str:
    """Returns whose run a JobSet is of, as words for people; empty: somebody submitted it."""
    if label(jobset, SUBMISSION) or not (lease := label(jobset, LEASE)):
        return ""
    return f"lease {lease} of {label(jobset, OWNER) or 'somebody'}"


def _known(desk: Desk) -> list[Object]:
    """Returns all that rows are made of, and all that waits beside them, in whatever namespace."""
    found = [*desk.kube.list(JOB_SET, desk.namespace).items, *desk.everywhere(WORKLOAD)]
    for kind in (JOB, POD):
        found += desk.all(kind, _OF_JOBSETS)
    try:
        return [*found, *desk.everywhere(LOCAL_QUEUE)]
    except PermissionDenied:
        return found
