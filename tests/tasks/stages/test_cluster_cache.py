"""An image is pulled onto the nodes of a stand-in cluster before workloads want it; what pulls it goes in any case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_kinds import DAEMON_SET, JOB, POD
from tasks.stages.cluster_cache import Cached, NotCached, cache_image, seen
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import until

IMAGE = "registry.example/worker:1"
NODES = [{"pool": "cpu", "count": 2}, tpu_pool("np-0", *TPU.values(), hosts=4)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cache"), nodes=NODES) as started:
        yield started


@pytest.fixture
def api(cluster: KubernetesStandIn) -> Iterator[Kubernetes]:
    cluster.set(images=["*"])
    kube = Kubernetes(by_context("standin", str(cluster.kubeconfig)))
    yield kube
    assert kube.list(DAEMON_SET).items == []
    assert kube.list(JOB).items == []
    until(lambda: kube.list(POD).items == [])


def cached(api: Kubernetes, *pools: str, limit_s: float = 60.0, **more: Any) -> Cached:
    return cache_image(api, IMAGE, pools, limit_s=limit_s, look_s=0.02, **more)


def test_every_node_with_accelerators_gets_it_and_others_when_they_are_named(api: Kubernetes) -> None:
    assert cached(api).have == tuple(f"np-0-{index}" for index in range(4))
    assert cached(api, "cpu").have == ("cpu-0", "cpu-1")


def test_an_image_that_does_not_exist_is_told_with_the_nodes_that_lack_it(
    api: Kubernetes, cluster: KubernetesStandIn
) -> None:
    cluster.set(images=["other/*"])
    said: list[str] = []
    with pytest.raises(NotCached, match="0 of 4 nodes have it; np-0-.*given up after 1 s"):
        cached(api, limit_s=1.0, say=said.append)
    assert any("not found" in one for one in said), said


def test_what_cannot_be_taken_away_is_told_and_goes_with_the_next_call(
    api: Kubernetes, cluster: KubernetesStandIn
) -> None:
    cluster.fault(verb="delete", kind="daemonsets", action="error", code=403, reason="Forbidden")
    said: list[str] = []
    assert len(cached(api, say=said.append).have) == 4
    assert any("goes by itself within 120 s; it cannot be taken away now" in one for one in said), said
    [left] = api.list(DAEMON_SET).items
    cluster.fault()
    assert len(cached(api).have) == 4
    assert left["metadata"]["name"].startswith("slicebench-cache-")
    for deadline in api.list(JOB).items:  # the first call's, which nothing needs any more
        api.delete(JOB, deadline["metadata"]["name"])


def test_what_nobody_takes_away_goes_by_itself(api: Kubernetes, cluster: KubernetesStandIn) -> None:
    cluster.set(images=["other/*"])
    cluster.fault(verb="delete", action="error", code=403, reason="Forbidden", times=10)
    with pytest.raises(NotCached):
        cached(api, limit_s=0.5, linger_s=0.5)
    cluster.fault()
    until(lambda: api.list(DAEMON_SET).items == [])
    until(lambda: api.list(JOB).items == [])


def test_pools_and_images_that_are_none_are_refused(api: Kubernetes) -> None:
    with pytest.raises(BadInput, match="no nodes of pool np-7.*name one of cpu, np-0"):
        cached(api, "np-7")
    with pytest.raises(BadInput, match="is not a tag"):
        cache_image(api, "registry.example/worker:!")


@pytest.mark.parametrize(
    ("state", "image_id", "lacks"),
    [
        ({"running": {}}, "worker@sha256:0", None),
        ({"waiting": {"reason": "ContainerCreating"}}, "", "ContainerCreating"),
        ({"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}, "", "ImagePullBackOff: denied"),
        ({"waiting": {"reason": "CreateContainerError", "message": "no sleep in it"}}, "", None),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "worker@sha256:0", None),
    ],
)
def test_a_node_has_it_once_its_pod_says_more_than_of_a_pull(
    state: dict[str, Any], image_id: str, lacks: str | None
) -> None:
    one = {"state": state, "imageID": image_id}
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"containerStatuses": [one]}}
    assert seen(["n"], [pod]).lack == ({} if lacks is None else {"n": lacks})
    assert seen(["n"], []).lack == {"n": "no pod there yet"}
