"""Checks of a target on GKE by name: whether the API answers for its project, and what the cluster is like."""

from __future__ import annotations

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.container import Container
from tasks.cloud.container_model import GOOD, Cluster
from tasks.cloud.timing import Timing
from tasks.config.gke_target import GkeTargetConfig
from tasks.stages.doctor import Finding
from tasks.targets.cluster_words import create_words

_TIMING = Timing(try_s=5.0, total_s=12.0)


def look_at_named(config: GkeTargetConfig) -> list[Finding]:
    """Whether project and API are there, and the cluster with node pools that work, or the right to make one."""
    from tasks.cloud.google_place import choose_project
    from tasks.targets.cluster_find import find
    from tasks.targets.gke_cluster import place_of

    place = place_of(config)
    try:
        project = choose_project(place.project)
        container = Container(project.value, timing=_TIMING)
        there = find(container, place.name, place.location or "")
        if there is None and place.location is not None:
            container.versions(place.location)
    except BadInput as error:
        problem = error.problems[0]
        return [Finding("cluster", "wrong", problem.what, problem.fix)]
    except InfrastructureError as error:
        return [Finding("gke", "wrong", str(error))]
    source = "the target file" if place.project else project.source
    found = [Finding("gke", "fine", f"the API answers for project {project.value} (from {source})")]
    if there is not None:
        return [*found, *_of_cluster(there)]
    if place.create == "never":
        what = f"there is no cluster {place.name} in {project.value}, and the run may not make it"
        return [*found, Finding("cluster", "wrong", what, create_words(config) or "name one that is there")]
    return [
        *found,
        Finding("cluster", "fine", f"there is no cluster {place.name}: a run makes it, and gives it back"),
    ]


def _of_cluster(there: Cluster) -> list[Finding]:
    state = f"{there.name} in {there.location} is {there.state}"
    if there.state not in GOOD:
        why = f": {there.why}" if there.why else ""
        return [Finding("cluster", "wrong", f"{state}{why}", f"slicebench cluster describe {there.name}")]
    found = [Finding("cluster", "fine", f"{state}, version {there.version}")]
    for pool in there.pools:
        if pool.state not in GOOD:
            what = f"node pool {pool.name} is {pool.state}{f': {pool.why}' if pool.why else ''}"
            found.append(Finding("cluster", "warning", what, f"slicebench cluster describe {there.name}"))
    return found
