"""The client against the stand-in: what it makes and unmakes, also when replies are lost and controllers are down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks.cloud import kubernetes_errors as errors
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_config import by_context
from tasks.cloud.kubernetes_kinds import CONFIG_MAP, JOB, JOB_SET, WORKLOAD
from tasks.cloud.labels import labels_for
from tasks.cloud.timing import Timing
from tests.cloud.kubernetes.manifests import TPU, config_map, jobset
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import PATIENCE_S

LABELS = dict(labels_for("run-1-e1", "abc", "jan@here"))
SLEEPS = "import time; time.sleep(60)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    pools = [tpu_pool("np-0", *TPU.values(), hosts=2)]
    with KubernetesStandIn.started(tmp_path_factory.mktemp("cluster"), nodes=pools) as started:
        yield started


@pytest.fixture
def kube(cluster: KubernetesStandIn) -> Iterator[Kubernetes]:
    yield Kubernetes(
        by_context("standin", str(cluster.kubeconfig)), timing=Timing(60.0, PATIENCE_S, 0.02, 0.2)
    )
    cluster.fault()
    cluster.stop()


def small(name: str, **more: Any) -> dict[str, Any]:
    return jobset(name, SLEEPS, slices=1, pods=1, labels=LABELS, **more)


@pytest.mark.parametrize("action", ["lose_reply", "drop"])
def test_a_create_whose_reply_is_lost_makes_one_and_no_second(
    kube: Kubernetes, cluster: KubernetesStandIn, action: str
) -> None:
    name = action.replace("_", "-")
    cluster.fault(verb="create", kind="jobsets", action=action)
    made = kube.create(JOB_SET, small(name))
    assert [one["metadata"]["uid"] for one in kube.list(JOB_SET).items] == [made["metadata"]["uid"]]
    assert kube.create(JOB_SET, small(name))["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(errors.AlreadyExists, match="by jan-here's lease run-1-e1"):
        kube.create(JOB_SET, jobset(name, labels=dict(labels_for("run-2-e1", "abc"))))
    cluster.fault(verb="delete", kind="jobsets", action="lose_reply")
    kube.delete(JOB_SET, name)
    kube.delete(JOB_SET, name)
    cluster.assert_nothing_left(but=("events",))


def test_what_is_wrong_is_refused_and_nothing_is_made(kube: Kubernetes) -> None:
    with pytest.raises(errors.Refused, match="JobSet name is too long"):
        kube.create(JOB_SET, small("x" * 60))
    with pytest.raises(errors.Refused):
        kube.create(JOB_SET, small("A"))
    pod = small("none")["spec"]["replicatedJobs"][0]["template"]
    pod["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    with pytest.raises(errors.Refused):
        kube.try_create(JOB, {"metadata": {"name": "none"}, "spec": pod["spec"]})
    assert not kube.list(JOB_SET).items and not kube.list(JOB).items


def test_a_dry_run_makes_nothing(kube: Kubernetes) -> None:
    assert kube.try_create(JOB_SET, small("dry"))["spec"]["network"]
    assert kube.find(JOB_SET, "dry") is None


def test_a_controller_that_is_down_is_waited_for(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    cluster.stop("jobset")
    impatient = Kubernetes(kube.access, timing=Timing(5.0, 0.2, 0.01, 0.05))
    with pytest.raises(
        errors.WebhookDown, match="nothing was made; see whether the service .* jobset-system"
    ):
        impatient.create(JOB_SET, small("down"))
    cluster.stop()
    cluster.fault(
        verb="create",
        kind="jobsets",
        action="error",
        times=2,
        message='failed calling webhook "mjobset.kb.io"',
    )
    assert kube.create(JOB_SET, small("down"))
    kube.delete(JOB_SET, "down")
    cluster.assert_nothing_left(but=("events",))


def test_applying_says_how_things_shall_be(kube: Kubernetes, cluster: KubernetesStandIn) -> None:
    cluster.fault(verb="*", kind="configmaps", action="lose_reply")
    kube.apply(config_map("a", a="1") | {"metadata": {"name": "a"}}, kind=CONFIG_MAP)
    kube.apply(config_map("a", a="2") | {"metadata": {"name": "a"}})
    there = kube.get(CONFIG_MAP, "a")
    assert there["data"] == {"a": "2"}
    kube.patch(CONFIG_MAP, "a", {"data": {"a": None, "b": "3"}})
    assert kube.get(CONFIG_MAP, "a")["data"] == {"b": "3"}
    with pytest.raises(errors.Conflict):
        stale = {"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}, "data": {"c": "4"}}
        kube.patch(CONFIG_MAP, "a", stale)
    kube.delete(CONFIG_MAP, "a", uid="that of another")
    assert kube.find(CONFIG_MAP, "a")
    kube.delete(CONFIG_MAP, "a")
    assert kube.find(CONFIG_MAP, "a") is None


def test_what_the_cluster_serves_is_told(kube: Kubernetes) -> None:
    assert kube.serves(JOB_SET) and kube.serves(WORKLOAD)
    assert kube.version().startswith("v1.")
    with pytest.raises(errors.NotServed):
        kube.kind_of({"apiVersion": "x.io/v1", "kind": "Widget"})


def test_a_token_that_is_not_taken_is_told(tmp_path: Any) -> None:
    with KubernetesStandIn.started(tmp_path, token="right") as guarded:
        assert Kubernetes(by_context("standin", str(guarded.kubeconfig))).version()
        wrong = guarded.kubeconfig.with_name("wrong")
        wrong.write_text(guarded.kubeconfig.read_text().replace("right", "wrong"))
        with pytest.raises(errors.PermissionDenied, match="log in again"):
            Kubernetes(by_context("standin", str(wrong))).version()
