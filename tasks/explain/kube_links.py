"""Links to the Google Cloud console: a cluster and what is around it, a Job, logs. Pure functions of names."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

_CONSOLE = "https://console.cloud.google.com"


@dataclass(frozen=True)
class GkePlace:
    """Where a workload is on Google Cloud. `location` is a zone or a region."""

    project: str
    location: str
    cluster: str
    namespace: str = "default"


def cluster_link(place: GkePlace) -> str:
    """Returns the page of a cluster."""
    path = _path("kubernetes/clusters/details", place.location, place.cluster, "details")
    return f"{_CONSOLE}/{path}?{_project(place)}"


def metrics_link(place: GkePlace) -> str:
    """Returns the dashboards of a cluster: what its nodes, containers and accelerators did, as GKE has it."""
    path = _path("kubernetes/clusters/details", place.location, place.cluster, "observability")
    return f"{_CONSOLE}/{path}?{_project(place)}"


def job_link(place: GkePlace, job: str) -> str:
    """Returns the page of a Job, with its pods and their events. The console has none for JobSets."""
    path = _path("kubernetes/job", place.location, place.cluster, place.namespace, job, "details")
    return f"{_CONSOLE}/{path}?{_project(place)}"


def logs_link(place: GkePlace, workload: str, pod: str = "", severity: str = "") -> str:
    """Returns the logs of one pod of a workload, or of all of them, from `severity` on: `ERROR`."""
    query = quote(logs_filter(place, workload, pod, severity), safe="")
    return f"{_CONSOLE}/logs/query;query={query}?{_project(place)}"


def cluster_logs_link(place: GkePlace) -> str:
    """Returns the logs of all that runs in a cluster."""
    lines = (
        f'resource.labels.location="{place.location}"',
        f'resource.labels.cluster_name="{place.cluster}"',
    )
    return f"{_CONSOLE}/logs/query;query={quote(chr(10).join(lines), safe='')}?{_project(place)}"


def bucket_link(place: GkePlace, bucket: str) -> str:
    """Returns what is in a bucket."""
    return f"{_CONSOLE}/{_path('storage/browser', bucket)}?{_project(place)}"


def registry_link(place: GkePlace, location: str, name: str) -> str:
    """Returns the images of a repository of Artifact Registry."""
    return f"{_CONSOLE}/{_path('artifacts/docker', place.project, location, name)}?{_project(place)}"


def tensorboards_link(place: GkePlace) -> str:
    """Returns the TensorBoards of a project."""
    return f"{_CONSOLE}/vertex-ai/experiments/tensorboard-instances?{_project(place)}"


def logs_filter(place: GkePlace, workload: str, pod: str = "", severity: str = "") -> str:
    """Returns the filter of Cloud Logging, as its page and its API take it."""
    lines = [
        'resource.type="k8s_container"',
        f'resource.labels.project_id="{place.project}"',
        f'resource.labels.location="{place.location}"',
        f'resource.labels.cluster_name="{place.cluster}"',
        f'resource.labels.namespace_name="{place.namespace}"',
        f'resource.labels.pod_name="{pod}"' if pod else f'resource.labels.pod_name=~"^{workload}-"',
        *([f"severity>={severity}"] if severity else ()),
    ]
    return "\n".join(lines)


def _path(page: str, *parts: str) -> str:
    return "/".join([page, *(quote(part, safe="") for part in parts)])


def _project(place: GkePlace) -> str:
    return f"project={quote(place.project, safe='')}"
