"""Opens the API of a cluster: of a context that somebody named, or of a cluster of GKE by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.google_place import choose_project
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_config import by_context, gke_of
from tasks.cloud.kubernetes_gke import GkeName, access_of
from tasks.cloud.timing import Timing
from tasks.targets.cluster_words import create_words

if TYPE_CHECKING:
    from tasks.cloud.container_model import Cluster
    from tasks.config.gke_target import GkeTargetConfig


@dataclass(frozen=True)
class Reached:
    """How a cluster is reached; `gke` None: it is not known as one of GKE."""

    access: Access
    gke: GkeName | None = None
    there: Cluster | None = None
    """The cluster as GKE has it, where it was looked for by its name."""


def reach_target(config: GkeTargetConfig) -> Reached:
    """Returns how the cluster of a target is reached. Raises BadInput, ContainerError."""
    place = config.cluster
    if place is None:
        return reach_context(config.context or "", config.kubeconfig, config.namespace)
    return reach_cluster(
        place.project, place.location, place.name, config.namespace, create=create_words(config)
    )


def version_of(config: GkeTargetConfig) -> tuple[str, str]:
    """Returns what the cluster of a target is called, and its version; that is empty where it does not answer, or is
    not there.
    """
    from tasks.cloud.kubernetes import Kubernetes

    try:
        access = reach_target(config).access
        return access.name, Kubernetes(access, timing=Timing(total_s=10.0)).version()
    except (BadInput, InfrastructureError):
        return "", ""


def reach_context(context: str, kubeconfig: str | None = None, namespace: str | None = None) -> Reached:
    """Returns how the cluster of a context is reached."""
    named = gke_of(context)
    return Reached(by_context(context, kubeconfig, namespace), GkeName(*named) if named else None)


def reach_cluster(
    project: str | None, location: str | None, name: str, namespace: str = "default", *, create: str = ""
) -> Reached:
    """Returns how a cluster of GKE is reached. Raises BadInput when there is none of that name, or several are;
    NoAddress for one that cannot be spoken to. `create`: the command that makes it, where that is known.
    """
    found = _cluster(choose_project(project).value, location, name, create or "see slicebench cluster list")
    place = GkeName(found.project, found.location, found.name)
    return Reached(access_of(found, namespace), place, found)


def _cluster(project: str, location: str | None, name: str, fix: str) -> Cluster:
    from tasks.cloud.container import Container
    from tasks.cloud.container_errors import NotFound

    api = Container(project)
    if location:
        try:
            return api.cluster(location, name)
        except NotFound:
            what = f"there is no cluster {name} in {location} of {project}"
            raise BadInput(what, fix=fix) from None
    found = [one for one in api.clusters() if one.name == name]
    if len(found) > 1:
        where = ", ".join(one.location for one in found)
        raise BadInput(f"there are several clusters {name} in {project}: in {where}", fix="say --location")
    if not found:
        raise BadInput(f"there is no cluster {name} in {project}", fix=fix)
    return found[0]
