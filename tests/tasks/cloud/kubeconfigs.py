"""Kubeconfigs for tests, a server that tells its version, and who asks it by either way to make requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_plain import PlainWire
from tasks.cloud.kubernetes_transport import Wire
from tasks.cloud.timing import Timing
from tests.tasks.cloud.scripted_server import Reply, Scripted, scripted

QUICK = Timing(try_s=5.0, total_s=0.2, first_pause_s=0.01, longest_pause_s=0.05)
VERSION = {"gitVersion": "v1.36.0"}
PROGRAM = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


def config(**parts: Any) -> dict[str, Any]:
    """Returns a kubeconfig with one context `kind-a`, its parts changed."""
    cluster = {"server": "http://127.0.0.1:1", **parts.get("cluster", {})}
    context = {"cluster": "c", "user": "u", **parts.get("context", {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "another",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [
            {"name": "kind-a", "context": context},
            {"name": "kind-b", "context": {"cluster": "gone"}},
        ],
        "users": [{"name": "u", "user": parts.get("user", {})}],
    }


Writer = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    def writes(name: str = "config", **parts: Any) -> str:
        file = tmp_path / name
        file.write_text(yaml.safe_dump(config(**parts)))
        return str(file)

    return writes


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted(lambda asked: Reply(200, VERSION)) as running:
        yield running


def version(access: Access, wire: type[Wire] = Wire) -> str:
    return Kubernetes(access, timing=QUICK, wire=wire).version()


@pytest.fixture(params=[Wire, PlainWire])
def wire(request: pytest.FixtureRequest) -> type[Wire]:
    """By either way to make requests: they must not differ."""
    found: type[Wire] = request.param
    return found
