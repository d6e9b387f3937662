"""Where a run's workload is or was in a cluster, as its folder says: the command that asks there, and links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.cloud.storage import Folder
from tasks.explain.kube_links import GkePlace, cluster_link, logs_link, metrics_link
from tasks.leases.left import about, last_attempt


def ask_there(folder: Folder) -> str:
    """Returns the command that asks the cluster about the workload that was started last; empty where none was."""
    ref = workload_of(folder)
    return about("explain", str(ref["name"]), str(ref["scope"])) if ref is not None else ""


def links(folder: Folder) -> list[tuple[str, str]]:
    """Returns (label, address) of pages of Google Cloud about that workload; none where it is in another cluster."""
    ref = workload_of(folder)
    if ref is None:
        return []
    there = place_of_scope(str(ref["scope"]))
    if there is None:
        return []
    name = str(ref["name"])
    return [
        ("cluster", cluster_link(there)),
        ("metrics", metrics_link(there)),
        ("logs", logs_link(there, name)),
        ("errors in them", logs_link(there, name, severity="ERROR")),
    ]


def place_of_scope(scope: str) -> GkePlace | None:
    """Returns where on GKE a workload's scope is, by its cluster's name or a context that gcloud made; else None."""
    from tasks.cloud.kubernetes_config import gke_of
    from tasks.cloud.kubernetes_places import context_of, on_gke

    place = on_gke(scope)
    if place is not None:
        return GkePlace(place["project"], place["location"], place["name"], place["namespace"])
    named = gke_of(context_of(scope) or "")
    return GkePlace(*named, scope.rpartition("/")[2]) if named is not None else None


def workload_of(folder: Folder) -> Mapping[str, Any] | None:
    """Returns the workload that was started last in a cluster; None where none was."""
    ref = last_attempt(folder).get("ref")
    if not isinstance(ref, dict) or ref.get("kind") != "gke" or not {"name", "scope"} <= ref.keys():
        return None
    return ref
