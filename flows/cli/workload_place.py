"""Which cluster a command about workloads is for: of a context, of GKE by name, or of a target file."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.workload_flags import one_cluster
from runtime.contract.errors import BadInput
from tasks.targets.kube_names import is_dns_label

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.stages.workload_desk import Desk


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Which cluster: of a context, of GKE by name, or of a target file."""

    context: Annotated[
        str | None, Parameter(help="Context of your kubeconfig; the current one is never assumed")
    ] = None
    kubeconfig: Annotated[
        str | None, Parameter(help="Kubeconfig file; default: $KUBECONFIG, or ~/.kube/config")
    ] = None
    cluster: Annotated[str | None, Parameter(help="Name of a GKE cluster")] = None
    location: Annotated[
        str | None,
        Parameter(("--location", "--zone"), help="Its zone or region, if several clusters have the name"),
    ] = None
    project: Annotated[str | None, Parameter(help="Its project; default: from the environment or gcloud")] = (
        None
    )
    target: Annotated[str | None, Parameter(help="Target of kind gke whose cluster and namespace to use")] = (
        None
    )
    namespace: Annotated[
        str | None, Parameter(help="Namespace; default: the target's or the context's, or default")
    ] = None


NOWHERE = Where()

_LOOK_S = 20.0
"""For so long it is asked again what does not answer, where somebody only wants to look and waits for it."""


def office(where: Where, *, patient: bool = False) -> Desk:
    """Returns where workloads are asked about. Raises BadInput unless exactly one cluster is named.

    `patient`: something is under way, which is to outlast a cluster that does not answer for a while.
    """
    one_cluster(where)
    if where.kubeconfig and not where.context:
        raise BadInput("--kubeconfig goes with --context")
    if where.namespace is not None and not is_dns_label(where.namespace):
        raise BadInput(
            f"--namespace {where.namespace!r} is no name of a namespace", fix="a-z, 0-9 and -, up to 63"
        )
    from tasks.cloud.kubernetes import Kubernetes
    from tasks.cloud.timing import Timing
    from tasks.stages.workload_desk import Desk
    from tasks.targets.gke_access import reach_cluster, reach_context

    if where.context:
        reached = reach_context(where.context, where.kubeconfig, where.namespace)
    elif where.cluster:
        reached = reach_cluster(where.project, where.location, where.cluster, where.namespace or "default")
    else:
        from tasks.targets.gke_access import reach_target

        reached = reach_target(_target(where))
    namespace = where.namespace or reached.access.namespace
    timing = Timing() if patient else Timing(total_s=_LOOK_S)
    return Desk(Kubernetes(reached.access, timing=timing), namespace, reached.gke, _flags(where))


def _flags(where: Where) -> str:
    given = {field.name: getattr(where, field.name) for field in fields(where)}
    return " ".join(f"--{flag} {shlex.quote(value)}" for flag, value in given.items() if value)


def _target(where: Where) -> GkeTargetConfig:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.config.load import load_target
    from tasks.config.locate import locate

    config = load_target(locate(where.target or "", "targets"))
    if not isinstance(config, GkeTargetConfig):
        raise BadInput(
            f"--target {where.target} is of kind {config.kind}, which has no workloads in a cluster"
        )
    return config
