"""A client of a scripted API server, by either way to make requests, and a JobSet that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_plain import PlainWire
from tasks.cloud.kubernetes_transport import Wire
from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tests.tasks.cloud.scripted_server import Scripted, scripted, status

QUICK = Timing(try_s=30.0, total_s=60.0, first_pause_s=0.01, longest_pause_s=0.05)
LABELS = labels_for("run-1-e1", "abc", "jan@here")
MANIFEST: Mapping[str, Any] = {
    "metadata": {"name": "js", "namespace": "ns", "labels": dict(LABELS)},
    "spec": {"suspend": None},
}
MADE: Mapping[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "js", "uid": "u1", "labels": dict(LABELS), "managedFields": [{"manager": "x"}]},
}
OURS: Mapping[str, Any] = {
    **MADE,
    "metadata": {key: value for key, value in MADE["metadata"].items() if key != "managedFields"},
}
MISSING = status(404, "NotFound", 'jobsets "js" not found', "js", kind="jobsets")
TAKEN = status(409, "AlreadyExists", 'jobsets "js" already exists', "js")


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture(params=[Wire, PlainWire])
def kube(server: Scripted, request: pytest.FixtureRequest) -> Kubernetes:
    """By either way to make requests: they must not differ."""
    return Kubernetes(Access("context test", server.url, "ns"), timing=QUICK, wire=request.param)
