"""Submits what was submitted to a real cluster, and compares what each object goes through with the recording of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cloud.kubernetes import recordings
from tests.cloud.kubernetes.manifests import TPU, kueue
from tests.cloud.kubernetes.recordings import Step
from tests.cloud.kubernetes.replaying import Scene, history, local_queue, set_up
from tests.cloud.kubernetes.space import Obj, Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool
from tests.waiting import until

_FLAVOR = "2xv5litepod-16"


def _one(scene: Scene) -> None:
    name = scene.post()
    scene.ready(name)
    scene.open()
    scene.ended(name)


def _restarted(scene: Scene) -> None:
    name = scene.post()
    scene.ready(name)
    scene.open()
    scene.ended(name)


def _waits(scene: Scene) -> None:
    first = scene.post(0)
    scene.ready(first)
    second = scene.post(1)
    scene.seen(second, "QuotaReserved", "False", "WaitingForQuota")
    scene.open(0)
    scene.ended(first)
    scene.ready(second)
    scene.open(1)
    scene.ended(second)


def _preempts(scene: Scene) -> None:
    low = scene.post(0)
    scene.ready(low)
    scene.cluster.stop("job")
    high = scene.post(1)
    scene.seen(low, "Evicted", "True", "Preempted")
    # The pods of the recording were done at just this moment.
    jobs = scene.api.eventually(
        "jobs", "", lambda told: all(one["spec"]["suspend"] for one in told["items"])
    )["items"]
    scene.open(0)
    uids = ",".join(one["metadata"]["uid"] for one in jobs if one["metadata"]["name"].startswith(low))
    until(lambda: set(scene.api.phases(f"batch.kubernetes.io/controller-uid in ({uids})")) == {"Succeeded"})
    scene.cluster.stop()
    scene.ended(low)
    scene.ready(high)
    scene.open(1)
    scene.ended(high)


def _stays(scene: Scene) -> None:
    scene.seen(scene.post(), "PodsReady", "False", "WaitForStart")


def _no_queue(scene: Scene) -> None:
    name = scene.post()
    scene.seen(name, "QuotaReserved", "False", "Misconfigured")
    scene.seen(name, "PodsReady", "False", "WaitForStart")
    local_queue(scene)
    scene.ready(name)
    scene.open()
    scene.ended(name)


def _unschedulable(scene: Scene) -> None:
    scene.post()
    told = scene.api.eventually(
        "events",
        "",
        lambda told: [one for one in told["items"] if one["reason"] == "FailedScheduling"],
    )
    message = next(one["message"] for one in told["items"] if one["reason"] == "FailedScheduling")
    nodes = len(scene.api.names("nodes"))
    recorded = next(
        line["object"]["message"]
        for line in recordings.lines(scene.name)
        if line["kind"] == "Event" and line["object"]["reason"] == "FailedScheduling"
    )
    assert message == recorded.replace("42", str(nodes))
    assert len(scene.api.names("pods")) == 1


def _no_image(scene: Scene) -> None:
    scene.cluster.set(images=["other/*"])
    name = scene.post()

    def backs_off(told: Obj) -> bool:
        states = [one["status"].get("containerStatuses", [{}])[0] for one in told["items"]]
        reasons = [one.get("state", {}).get("waiting", {}).get("reason") for one in states]
        return bool(reasons) and set(reasons) <= {"ErrImagePull", "ImagePullBackOff"}

    scene.api.eventually("pods", "", backs_off)
    scene.api.delete("jobsets", name)
    scene.gone()
    scene.cluster.set(images=["*"])


def _again(scene: Scene) -> None:
    name = scene.post(0)
    until(lambda: scene.api.phases() == ["Running"] * 8)
    scene.api.delete("jobsets", name)
    scene.post(1)
    scene.ready(name)
    scene.open(1)
    scene.ended(name)


def _expires(scene: Scene) -> None:
    name = scene.post()
    scene.ready(name)
    scene.open()
    scene.gone()  # its end is there for a second only: whoever looks late misses it


def _pod_deleted(scene: Scene) -> None:
    name = scene.post()
    scene.ready(name)
    victim = next(one for one in scene.api.names("pods") if "-1-0-" in one)
    scene.api.delete("pods", victim)
    scene.api.eventually("jobsets", name, lambda js: js["status"]["restarts"] == 1)
    scene.ready(name, "Recovered")
    scene.open()
    scene.ended(name)


def _real(scene: Scene) -> None:
    name = scene.post()
    until(lambda: len(scene.api.phases()) == 8)
    # Both Jobs of the recording failed before the JobSet did.
    scene.cluster.stop("job")
    until(lambda: set(scene.api.phases()) == {"Failed"})
    scene.cluster.stop()
    scene.ended(name)
    codes = {
        status["state"]["terminated"]["exitCode"]
        for pod in scene.api.get("pods")["items"]
        for status in pod["status"]["containerStatuses"]
    }
    assert 42 in codes


# Scenario, what is done, and the conditions that depended on a race in the recording.
SCENARIOS: dict[str, tuple[Callable[[Scene], None], set[Step | str]]] = {
    "b-exit1-norestart": (_one, set()),
    "c-exit1-maxrestarts1": (_restarted, set()),
    # PodsReady=False came before the first look at the quota once, and after it otherwise.
    "d-quota-wait": (_waits, {("PodsReady", "False", "WaitForStart")}),
    "e2-preempt-workloadpriority": (_preempts, set()),
    "f-never-fits": (_stays, set()),
    "g-no-localqueue": (_no_queue, set()),
    "h-unschedulable-nodepool": (_unschedulable, set()),
    # Kueue may say that the owner is gone before the collector has come by.
    "i-imagepullbackoff": (_no_image, {("Finished", "True", "OwnerNotFound")}),
    # Kueue suspended one Job of two before it went; the Job controller missed a suspension that was short.
    "j3-delete-recreate-same-name": (
        _again,
        {"PodsReady", "suspend", "Suspended", ("Finished", "True", "OwnerNotFound")},
    ),
    "k2-ttl-complete": (_expires, set()),
    # The pod was deleted before all were ready.
    "m-pod-deleted": (_pod_deleted, {"PodsReady"}),
    # The pods were over before all were ready. A Job that has not failed yet when its JobSet fails is deleted.
    "n-real-command": (_real, {"PodsReady", "gone", ("Failed", "True", "BackoffLimitExceeded")}),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesStandIn]:
    """A cluster with the slices and the flavor of the recordings."""
    pools = [tpu_pool(f"np-{one}", *TPU.values(), hosts=4) for one in range(4)]
    folder = tmp_path_factory.mktemp("cluster")
    with KubernetesStandIn.started(
        folder, nodes=pools, bookmark_s=0.01, backoff_s=1.0, kueue_reasons=True, tells_restarts=False
    ) as started:
        api = Space(started.url)
        api.post("resourceflavors", kueue("ResourceFlavor", _FLAVOR, nodeLabels=TPU))
        for name, value in (("low", 250), ("high", 750)):
            api.post("workloadpriorityclasses", {**kueue("WorkloadPriorityClass", name), "value": value})
        yield started


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_object_goes_through_what_a_real_cluster_showed(
    name: str, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    act, racy = SCENARIOS[name]
    api = Space(cluster.url)
    start = int(api.get("namespaces")["metadata"]["resourceVersion"])
    scene = set_up(Scene(cluster, Space(cluster.url, name), name, tmp_path))
    act(scene)
    told = sorted(history(scene, start), key=lambda line: int(line["object"]["metadata"]["resourceVersion"]))
    ours, theirs = recordings.sequences(told), recordings.sequences(recordings.lines(name))
    assert set(ours) == set(theirs)
    for key in theirs:
        assert _certain(ours[key], racy) == _certain(theirs[key], racy), key
    api.delete("namespaces", name)
    api.gone("namespaces", name)


def _certain(steps: list[Step], racy: set[Step | str]) -> list[Step]:
    return [one for one in steps if one not in racy and one[0] not in racy]
