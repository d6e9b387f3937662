"""Clusters that are too old for what stands beside workers, by what their servers say of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.kube_version import too_old
from tests.tasks.targets.kube_made import PATHWAYS, made


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("v1.28.15-gke.2169000", True),
        ("v1.9.0", True),
        ("1.28", True),
        ("v1.29.0", False),
        ("v1.29.0-alpha.1", False),
        ("v1.36.2+k3s1", False),
        ("v2.0.0", False),
        ("", False),
        ("newest", False),
    ],
)
def test_what_stands_beside_the_workers_needs_a_version(version: str, old: bool) -> None:
    told = too_old(version, made({"ops_agent": {}}), "context c")
    assert bool(told) is old
    if told is not None:
        assert told.what.startswith(
            f"context c is Kubernetes {version}, which knows no sidecars, and ops-agent"
        )
        assert "upgrade the cluster to 1.29 or later" in told.fix


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, ""),
        ({"ops_agent": {}, "debug_dump": {"to": "gs://bkt/d"}}, "xla-dump, ops-agent"),
        ({"pathways": PATHWAYS}, "pathways-proxy, pathways-rm"),
    ],
)
def test_whatever_stands_there_is_named(fields: dict[str, Any], named: str) -> None:
    told = too_old("v1.28.0", made(fields), "context c")
    assert (told is not None and f"and {named} would" in told.what) if named else told is None
