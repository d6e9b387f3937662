"""Workloads of one host of CPUs, as `slicebench workload create` is told of them in tests, and where they go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

IMAGE = f"r.example/p/x@sha256:{'0' * 64}"
SECRETS = "/api/v1/namespaces/default/secrets"
STAYS = "import time; print('up', flush=True); time.sleep(120)"


@contextmanager
def three_hosts(folder: Path) -> Iterator[KubernetesStandIn]:
    """A cluster for all tests of a file; each uses names of its own and deletes them."""
    with KubernetesStandIn.started(folder, nodes=[{"pool": "cpu", "count": 3}]) as started:
        yield started


@contextmanager
def emptied(cluster: KubernetesStandIn) -> Iterator[Plain]:
    """Speaks to the cluster's API for one test; deletes the workloads that it leaves, and fails when more is left."""
    plain = Plain(cluster.url)
    yield plain
    cluster.fault()
    for name in plain.names(JOBSETS):
        plain.delete(f"{JOBSETS}/{name}")
    cluster.assert_nothing_left(but=("Workload",))


def words_of(cluster: KubernetesStandIn, name: str, *more: str) -> list[str]:
    """Returns the words of a command for one host of CPUs."""
    fixed = ["workload", "create", *([name] if name else []), "--context", "standin"]
    fixed += ["--kubeconfig", str(cluster.kubeconfig)]
    fixed += [
        "--type",
        "cpu",
        "--nodes",
        "1",
        "--queue",
        "none",
        "--priority",
        "none",
        "--docker-image",
        IMAGE,
    ]
    return [*fixed, *more]


def python(program: str) -> list[str]:
    return ["--", "python", "-c", program]
