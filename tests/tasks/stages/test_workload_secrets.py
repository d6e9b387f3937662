"""Which Secrets a workload's pods get something from, what they hold, and what is said where they may not be read."""

from __future__ import annotations

import base64
from typing import Any, cast

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import PermissionDenied
from tasks.stages.workload_desk import Desk
from tasks.stages.workload_secrets import held


class Cluster:
    """Has Secrets, of which one may not be read."""

    def find(self, kind: Any, name: str, namespace: str) -> dict[str, Any] | None:
        if name == "closed":
            raise PermissionDenied('secrets "closed" is forbidden')
        held = {
            "w-env": {"K": "value"},
            "all": {"A": "of all"},
            "files": {"f": "in a file"},
            "part": {"p": "1"},
        }
        if (data := held.get(name)) is None:
            return None
        return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}}


def test_what_pods_get_from_secrets_is_read_and_what_may_not_be_is_said() -> None:
    env = [
        {"name": "MINE", "valueFrom": {"secretKeyRef": {"name": "w-env", "key": "K"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "HIDDEN", "valueFrom": {"secretKeyRef": {"name": "closed", "key": "K"}}},
    ]
    source = [{"secretRef": {"name": "all"}, "prefix": "X_"}, {"secretRef": {"name": "gone"}}]
    projected = {"projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "no"}}]}}
    volumes = [{"name": "v", "secret": {"secretName": "files"}}, {"name": "q", **projected}]
    pod = {"spec": {"containers": [{"env": env, "envFrom": source}], "volumes": volumes}}
    found = held(Desk(cast(Kubernetes, Cluster()), "default"), [None, {"spec": {"template": pod}}])
    assert found.values == {"value", "of all", "in a file", "1"}
    assert found.names == {"MINE", "HIDDEN", "X_A"}
    assert [one.split()[2] for one in found.unknown] == ["closed", "gone"]
    assert "forbidden" in found.unknown[0] and "it is gone" in found.unknown[1]
