"""A cluster for what is asked about the workloads in it; tests that want another one have their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flows.cli.main import main
from tests.cloud.kubernetes.client import JOBSETS, Plain
from tests.cloud.kubernetes.stand_in import KubernetesStandIn
from tests.flows.cli.workloads import POOLS


@pytest.fixture(scope="session")
def two_pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """One cluster for all tests of these commands; each uses names of its own and deletes them."""
    folder = tmp_path_factory.mktemp("cluster")
    with KubernetesStandIn.started(folder, nodes=POOLS, images=["gcr.io/p/*"]) as started:
        yield started


@pytest.fixture
def cluster(two_pools: KubernetesStandIn) -> KubernetesStandIn:
    """That cluster."""
    return two_pools


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Plain]:
    plain = Plain(cluster.url)
    yield plain
    for name in plain.names(JOBSETS):
        plain.delete(f"{JOBSETS}/{name}")
    cluster.assert_nothing_left(but=("Workload",))


@pytest.fixture
def call(cluster: KubernetesStandIn, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs one command at the cluster; returns its exit code, what it printed and what it said."""

    def run(command: str, *words: str, where: bool = True) -> tuple[int, str, str]:
        capsys.readouterr()
        there = ("--context", "standin", "--kubeconfig", str(cluster.kubeconfig)) if where else ()
        code = main(["workload", command, *words, *there])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run
