"""A stand-in that the tests of this folder share, each in a namespace of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.cloud.kubernetes.manifests import TPU, namespace
from tests.cloud.kubernetes.space import Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """Two slices of two hosts, and a few plain nodes."""
    pools = [tpu_pool(f"np-{one}", *TPU.values(), hosts=2) for one in range(2)]
    pools.append({"pool": "cpu", "count": 2})
    with KubernetesStandIn.started(
        tmp_path_factory.mktemp("cluster"), nodes=pools, backoff_s=0.05, kueue_reasons=True
    ) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Space]:
    """A client of it, in a new namespace that goes with the test."""
    api = Space(cluster.url, f"test-{next(_numbers)}")
    api.post("namespaces", namespace(api.space))
    yield api
    cluster.fault()
    cluster.stop()
    cluster.set(images=["*"], ready_after_s=0.0, bookmark_s=60.0, kueue_reasons=True)
    api.delete("namespaces", api.space)
    api.gone("namespaces", api.space)
