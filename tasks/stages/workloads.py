"""Workloads of a cluster, whoever made them: listed, picked by name, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.cloud.kubernetes_kinds import ALL_NAMESPACES, JOB, JOB_SET, LOCAL_QUEUE, POD, WORKLOAD
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.cloud.labels import LEASE, OWNER, SUBMISSION
from tasks.stages.workload_desk import Desk, the_jobset
from tasks.targets.kube_objects import Object, label, name
from tasks.targets.kube_rows import Row, matching, rows

_OF_JOBSETS = JOBSET_UID
"""A selector: whatever has this label."""


def listing(desk: Desk, which: str, job: str, *, everywhere: bool = False) -> list[Row]:
    """Returns the workloads of a namespace, or of all, that filters let through. Raises BadInput, KubernetesError."""
    rows([], which, job)  # refuses wrong filters before anything is asked
    found = rows(_known(desk, ALL_NAMESPACES if everywhere else desk.namespace), which, job)
    return [one for one in found if everywhere or one.namespace == desk.namespace]


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


def _known(desk: Desk, namespace: str) -> list[Object]:
    """Returns all that rows are made of, and all that waits beside them, in whatever namespace."""
    found = [*desk.kube.list(JOB_SET, namespace).items, *desk.everywhere(WORKLOAD)]
    for kind in (JOB, POD):
        found += desk.all(kind, _OF_JOBSETS, namespace)
    try:
        return [*found, *desk.everywhere(LOCAL_QUEUE)]
    except PermissionDenied:
        return found
