"""What would stop a workload on a cluster: the API, controllers, what it names that is not there, rights, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from runtime.contract.nearest import nearest
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import (
    AlreadyExists,
    KubernetesError,
    NotServed,
    PermissionDenied,
    Refused,
    Unavailable,
)
from tasks.cloud.kubernetes_kinds import (
    CLUSTER_QUEUE,
    JOB,
    JOB_SET,
    LOCAL_QUEUE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    SECRET,
    SERVICE_ACCOUNT,
    Kind,
    Object,
)
from tasks.cloud.kubernetes_labels import NODE_POOL
from tasks.cloud.labels import read_labels
from tasks.targets.kube_check import checked, job_of
from tasks.targets.kube_jobset import groups, jobset
from tasks.targets.kube_objects import condition
from tasks.targets.kube_submission import Submission
from tasks.targets.kube_version import too_old

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

_RIGHTS: Sequence[tuple[str, Kind, str]] = (
    ("create", JOB_SET, ""), ("get", JOB_SET, ""), ("watch", JOB_SET, ""), ("delete", JOB_SET, ""),
    ("create", SECRET, ""), ("list", POD, ""), ("watch", POD, ""), ("get", POD, "log"), ("list", JOB, ""),
)  # fmt: skip


def preflight(
    connect: Callable[[], Kubernetes],
    config: GkeTargetConfig,
    planned: Submission,
    fits: Callable[[Kubernetes, Object], Iterable[Problem]] = lambda cluster, made: (),
) -> list[Problem]:
    """Returns what is wrong. `planned` is what would be submitted, as far as it is known yet; `fits` says whether that
    could ever run there.
    """
    made = jobset(config, planned)
    if wrong := checked(made):
        return wrong
    try:
        cluster = connect()
        old = too_old(cluster.version(), made, cluster.access.name)
    except BadInput as error:
        return list(error.problems)
    except InfrastructureError as error:
        unanswered = isinstance(error, Unavailable)  # and not that nobody here knows the way to it
        return [Problem("error", None, f"the cluster does not answer: {error}", unanswered=unanswered)]
    if old is not None:
        return [old]
    try:
        problems = [*_lacking(cluster, config), *_forbidden(cluster, config)]
        if any(one.severity == "error" for one in problems):
            return problems
        return [*problems, *_refused(cluster, config, planned), *fits(cluster, made)]
    except KubernetesError as error:
        unanswered = isinstance(error, Unavailable)
        return [Problem("error", None, f"the cluster cannot be looked over: {error}", unanswered=unanswered)]


def _lacking(cluster: Kubernetes, config: GkeTargetConfig) -> Iterator[Problem]:
    yield from foundations(cluster, config)
    yield from named(cluster, config)


def foundations(cluster: Kubernetes, config: GkeTargetConfig) -> Iterator[Problem]:
    """Yields what a cluster lacks for any workload: the namespace, JobSet."""
    name = cluster.access.name
    if _missing(cluster, NAMESPACE, config.namespace):
        what = f"{name} has no namespace {config.namespace}"
        yield Problem("error", None, what, fix=f"make it: kubectl create namespace {config.namespace}")
    if not cluster.serves(JOB_SET):
        yield Problem(
            "error", None, f"{name} has no JobSet, which workloads are made of", fix="install it: docs/gke.md"
        )


def named(
    cluster: Kubernetes, config: GkeTargetConfig, seen: Callable[[Object], object] = lambda queue: None
) -> Iterator[Problem]:
    """Yields what a target names and is not there, one request for each: queue, priority class, account, TensorBoard.

    `seen` gets the queue.
    """
    name = cluster.access.name
    if config.queue is not None:
        yield from _queue(cluster, config, config.queue, seen)
    if config.priority is not None and _missing(cluster, PRIORITY_CLASS, config.priority):
        what = f"{name} has no priority class {config.priority}"
        why = "a workload that names one that is not there waits for ever, and nobody says so"
        yield Problem("error", None, what, why, "write another priority:, or priority: null")
    account = config.service_account
    if account is not None and _missing(cluster, SERVICE_ACCOUNT, account):
        what = f"namespace {config.namespace} of {name} has no service account {account}"
        make = f"kubectl create serviceaccount {account} --namespace {config.namespace}"
        yield Problem("error", None, what, fix=f"make it: {make}, or write another service_account:")
    secret = config.image_pull_secret
    if secret is not None and _missing(cluster, SECRET, secret):
        what = f"namespace {config.namespace} of {name} has no Secret {secret}"
        yield Problem(
            "error", None, what, "no image could be pulled by it", "write another image_pull_secret:"
        )
    if config.pathways is not None and config.pathways.head_node_pool is not None:
        yield from _head_pool(cluster, config.pathways.head_node_pool)
    if config.tensorboard is not None:
        from tasks.targets.gke_board import no_board  # few have one: the rest need not import it

        yield from no_board(config.tensorboard)


def _head_pool(cluster: Kubernetes, pool: str) -> Iterator[Problem]:
    """Yields that no node is there for the program of Pathways. A warning: a pool that scales may stand at none."""
    try:
        if cluster.list(NODE, labels={NODE_POOL: pool}).items:
            return
        pools = {one["metadata"].get("labels", {}).get(NODE_POOL) for one in cluster.list(NODE).items}
    except PermissionDenied:
        return
    there = ", ".join(sorted(filter(None, pools))) or "none that is named"
    what = f"no node of {cluster.access.name} is in node pool {pool}, where the program of Pathways runs"
    why = f"unless that pool scales up, the program waits for ever and holds its quota; pools with nodes: {there}"
    yield Problem("warning", None, what, why, "write another pathways.head_node_pool:, or null for any node")


def _queue(
    cluster: Kubernetes, config: GkeTargetConfig, queue: str, seen: Callable[[Object], object]
) -> Iterator[Problem]:
    name = cluster.access.name
    try:
        found = cluster.find(LOCAL_QUEUE, queue)
        if found is not None:
            seen(found)
            yield from _inactive(name, queue, found)
            return
        there = [str(one["metadata"]["name"]) for one in cluster.list(LOCAL_QUEUE).items]
    except NotServed:
        what = f"{name} has no Kueue, and so no queue {queue}"
        yield Problem(
            "error", None, what, fix="install it, or write queue: null to take what is free at once"
        )
        return
    except PermissionDenied:
        return
    what = f"namespace {config.namespace} of {name} has no queue {queue}"
    near = nearest(queue, there) if there else None
    none = "make one, or write queue: null to take what is free at once"
    fix = f"did you mean {near}?" if near else f"there are: {', '.join(there)}" if there else none
    yield Problem("error", None, what, "a workload would wait for it for ever", fix)


def _inactive(name: str, queue: str, found: Object) -> Iterator[Problem]:
    """Yields that a queue takes nothing at present, by its own word: it was stopped, or what is behind it was."""
    active = condition(found, "Active")
    if active is not None and not active.true:
        what = f"queue {queue} of {name} takes nothing at present ({active.reason}: {active.message})"
        yield Problem("warning", None, what, "a workload waits until it does")


def queueless(cluster: Kubernetes) -> Iterator[Problem]:
    """Yields why a run could not make a queue for machines that it adds to somebody else's cluster."""
    try:
        lacking = [
            kind.full_plural
            for kind in (CLUSTER_QUEUE, RESOURCE_FLAVOR, LOCAL_QUEUE)
            if not cluster.may("create", kind)
        ]
    except (NotServed, PermissionDenied):
        return
    if lacking:
        what = f"{cluster.access.name} does not let you create {', '.join(lacking)}"
        why = "machines that are added to it need a queue of their own"
        fix = "have somebody grant it; queue: null takes what is free at once; or create: never"
        yield Problem("error", None, what, why, fix)


def _missing(cluster: Kubernetes, kind: Kind, name: str) -> bool:
    """Whether an object is known not to be there: who may not look is told so when it matters."""
    try:
        return cluster.find(kind, name) is None
    except PermissionDenied:
        return False


def _forbidden(cluster: Kubernetes, config: GkeTargetConfig) -> Iterator[Problem]:
    try:
        lacking = [
            f"{verb} {kind.full_plural}{f'/{sub}' if sub else ''}"
            for verb, kind, sub in _RIGHTS
            if not cluster.may(verb, kind, sub=sub)
        ]
    except (NotServed, PermissionDenied):
        return
    if lacking:
        what = f"{cluster.access.name} does not let you {', '.join(lacking)} in namespace {config.namespace}"
        yield Problem(
            "error", None, what, fix="have somebody grant it: a Role and a RoleBinding, see docs/gke.md"
        )


def _taken(cluster: Kubernetes, name: str) -> Iterator[Problem]:
    there = cluster.find(JOB_SET, name)
    if there is not None and read_labels(there["metadata"].get("labels") or {}) is None:
        what = f"{cluster.access.name} has a JobSet {name} already, and no run of slicebench made it"
        yield Problem("error", None, what, fix="write another workload_name:, or delete it")


def _refused(cluster: Kubernetes, config: GkeTargetConfig, planned: Submission) -> Iterator[Problem]:
    try:
        yield from refused(cluster, config, planned)
    except AlreadyExists:  # a run that goes on finds what it submitted; whose it is, its labels say
        yield from _taken(cluster, planned.name)


def refused(
    cluster: Kubernetes, config: GkeTargetConfig, planned: Submission, *, jobs_only: bool = False
) -> Iterator[Problem]:
    """Has the server try it, and a Job of it as well: JobSet does not look at its pods. Raises AlreadyExists.

    `jobs_only`: who submits it at once learns from that what is wrong with the JobSet itself.
    """
    made = jobset(config, replace(planned, labels={}))
    try:
        if not jobs_only:
            cluster.try_create(JOB_SET, made)
        for group in groups(config):
            cluster.try_create(JOB, job_of(made, group.name))
    except Refused as error:
        yield Problem("error", None, f"{cluster.access.name} refuses the workload: {error}")
    except PermissionDenied as error:
        yield Problem("warning", None, f"the workload cannot be tried before it is submitted: {error}")
