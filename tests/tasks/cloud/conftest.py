"""What several files of tests of clients share: a cluster of the stand-in, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.cloud.kubernetes import Kubernetes
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.tasks.cloud.following import followed


@pytest.fixture(scope="session")
def followed_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """Two slices, in which JobSets are followed."""
    pools = [tpu_pool(f"np-{one}", *TPU.values(), hosts=4) for one in range(2)]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("followed"), nodes=pools) as started:
        yield started


@pytest.fixture
def kube(followed_cluster: KubernetesStandIn) -> Iterator[Kubernetes]:
    """A way into it, for one test."""
    with followed(followed_cluster) as kube:
        yield kube
