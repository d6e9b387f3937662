"""Where a run's workload is or was in a cluster, as its folder says: the command that asks there, and links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.cloud.storage import Folder
from tasks.explain.kube_links import GkePlace, cluster_link, logs_link
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
    from tasks.cloud.kubernetes_places import on_gke

    place = on_gke(str(ref["scope"]))
    if place is None:
        return []
    there = GkePlace(place["project"], place["location"], place["name"], place["namespace"])
    name = str(ref["name"])
    return [
        ("cluster", cluster_link(there)),
        ("logs", logs_link(there, name)),
        ("errors in them", logs_link(there, name, severity="ERROR")),
    ]


def workload_of(folder: Folder) -> Mapping[str, Any] | None:
    """Returns the workload that was started last in a cluster; None where none was."""
    ref = last_attempt(folder).get("ref")
    if not isinstance(ref, dict) or ref.get("kind") != "gke" or not {"name", "scope"} <= ref.keys():
        return None
    return ref
