"""Submits what was submitted to a real cluster, and compares what each object goes through with the recording of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.kubernetes import recordings
from tests.cloud.kubernetes.client import Obj, Plain
from tests.cloud.kubernetes.manifests import TPU
from tests.cloud.kubernetes.recordings import Step
from tests.cloud.kubernetes.stand_in import KubernetesStandIn, tpu_pool

_FLAVOR = "2xv5litepod-16"
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
# What the fake kubelet of the recordings did: run on until it is time, fail in one place, take a while to stop.
_PROGRAM = """
trap 'sleep {stop}; stopped=143' TERM
while [ ! -e "$GATE" ] && [ -z "$stopped" ]; do sleep 0.05; done
[ -e "$GATE" ] || exit $stopped
case "$FAKE_ONLY" in "") ;; "$PLACE"|"$PLACE@$ATTEMPT") sleep 0.4; exit 1 ;; esac
"""


@dataclass
class Scene:
    """One scenario under way."""

    cluster: KubernetesStandIn
    api: Plain
    name: str
    folder: Path
    jobsets: list[Obj] = field(default_factory=list)

    def path(self, kind: str, name: str = "") -> str:
        """Returns the path of a kind in the scenario's namespace."""
        roots = {"jobsets": "/apis/jobset.x-k8s.io/v1alpha2", "jobs": "/apis/batch/v1", "workloads": _KUEUE}
        root = roots.get(kind, _KUEUE if kind == "localqueues" else "/api/v1")
        return f"{root}/namespaces/{self.name}/{kind}" + (f"/{name}" if name else "")

    def post(self, number: int = 0) -> str:
        """Submits one of the recording's JobSets; returns its name."""
        obj = self.jobsets[number]
        self.api.post(self.path("jobsets"), obj)
        return str(obj["metadata"]["name"])

    def open(self, number: int = 0) -> None:
        """Lets the pods of a JobSet go on to their end."""
        (self.folder / f"gate{number}").touch()

    def ready(self, name: str, reason: str = "Started") -> None:
        """Waits until all pods of a JobSet are ready."""
        self.seen(name, "PodsReady", "True", reason)

    def seen(self, name: str, kind: str, status: str, reason: str) -> None:
        """Waits until its Workload has a condition."""

        def has(told: Obj) -> bool:
            mine = [one for one in told["items"] if one["metadata"]["name"].startswith(f"jobset-{name}-")]
            listed = mine[0].get("status", {}).get("conditions", []) if mine else []
            return any(
                (one["type"], one["status"], one["reason"]) == (kind, status, reason) for one in listed
            )

        self.api.eventually(self.path("workloads"), has)

    def ended(self, name: str) -> None:
        """Waits until a JobSet has ended, and Kueue knows."""
        self.api.eventually(self.path("jobsets", name), lambda js: js.get("status", {}).get("terminalState"))

        def finished(told: Obj) -> bool:
            mine = [one for one in told["items"] if one["metadata"]["name"].startswith(f"jobset-{name}-")]
            return any(step["type"] == "Finished" for one in mine for step in one["status"]["conditions"])

        self.api.eventually(self.path("workloads"), finished)

    def gone(self) -> None:
        """Waits until nothing of the JobSets is there."""
        for kind in ("jobsets", "workloads", "jobs", "pods"):
            self.api.eventually(self.path(kind), lambda told: not told["items"])


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
        scene.path("jobs"), lambda told: all(one["spec"]["suspend"] for one in told["items"])
    )["items"]
    scene.open(0)
    uids = ",".join(one["metadata"]["uid"] for one in jobs if one["metadata"]["name"].startswith(low))
    selected = f"{scene.path('pods')}?labelSelector=batch.kubernetes.io/controller-uid in ({uids})"
    scene.api.eventually(
        selected, lambda told: {one["status"]["phase"] for one in told["items"]} == {"Succeeded"}
    )
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
    _local_queue(scene)
    scene.ready(name)
    scene.open()
    scene.ended(name)


def _unschedulable(scene: Scene) -> None:
    scene.post()
    told = scene.api.eventually(
        scene.path("events"),
        lambda told: [one for one in told["items"] if one["reason"] == "FailedScheduling"],
    )
    message = next(one["message"] for one in told["items"] if one["reason"] == "FailedScheduling")
    nodes = len(scene.api.names("/api/v1/nodes"))
    recorded = next(
        line["object"]["message"]
        for line in recordings.lines(scene.name)
        if line["kind"] == "Event" and line["object"]["reason"] == "FailedScheduling"
    )
    assert message == recorded.replace("42", str(nodes))
    assert len(scene.api.names(scene.path("pods"))) == 1


def _no_image(scene: Scene) -> None:
    scene.cluster.set(images=["other/*"])
    name = scene.post()

    def backs_off(told: Obj) -> bool:
        states = [one["status"].get("containerStatuses", [{}])[0] for one in told["items"]]
        reasons = [one.get("state", {}).get("waiting", {}).get("reason") for one in states]
        return bool(reasons) and set(reasons) <= {"ErrImagePull", "ImagePullBackOff"}

    scene.api.eventually(scene.path("pods"), backs_off)
    scene.api.delete(scene.path("jobsets", name))
    scene.gone()
    scene.cluster.set(images=["*"])


def _again(scene: Scene) -> None:
    name = scene.post(0)
    scene.api.eventually(
        scene.path("pods"), lambda told: [one["status"]["phase"] for one in told["items"]] == ["Running"] * 8
    )
    scene.api.delete(scene.path("jobsets", name))
    scene.post(1)
    scene.ready(name)
    scene.open(1)
    scene.ended(name)


def _expires(scene: Scene) -> None:
    _one(scene)
    scene.gone()


def _pod_deleted(scene: Scene) -> None:
    name = scene.post()
    scene.ready(name)
    victim = next(one for one in scene.api.names(scene.path("pods")) if "-1-0-" in one)
    scene.api.delete(scene.path("pods", victim))
    scene.api.eventually(scene.path("jobsets", name), lambda js: js["status"]["restarts"] == 1)
    scene.ready(name, "Recovered")
    scene.open()
    scene.ended(name)


def _real(scene: Scene) -> None:
    name = scene.post()
    phases = scene.path("pods")
    scene.api.eventually(phases, lambda told: len(told["items"]) == 8)
    # Both Jobs of the recording failed before the JobSet did.
    scene.cluster.stop("job")
    scene.api.eventually(phases, lambda told: {one["status"]["phase"] for one in told["items"]} == {"Failed"})
    scene.cluster.stop()
    scene.ended(name)
    codes = {
        status["state"]["terminated"]["exitCode"]
        for pod in scene.api.get(scene.path("pods"))["items"]
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
    with KubernetesStandIn.started(folder, nodes=pools, bookmark_s=0.01, backoff_s=1.0) as started:
        api = Plain(started.url)
        api.post(f"{_KUEUE}/resourceflavors", _kueue("ResourceFlavor", _FLAVOR, nodeLabels=TPU))
        for name, value in (("low", 250), ("high", 750)):
            api.post(
                f"{_KUEUE}/workloadpriorityclasses", {**_kueue("WorkloadPriorityClass", name), "value": value}
            )
        yield started


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_object_goes_through_what_a_real_cluster_showed(
    name: str, cluster: KubernetesStandIn, tmp_path: Path
) -> None:
    act, racy = SCENARIOS[name]
    api = Plain(cluster.url)
    start = int(api.get("/api/v1/namespaces")["metadata"]["resourceVersion"])
    scene = _set_up(Scene(cluster, api, name, tmp_path))
    act(scene)
    told = sorted(_history(scene, start), key=lambda line: int(line["object"]["metadata"]["resourceVersion"]))
    ours, theirs = recordings.sequences(told), recordings.sequences(recordings.lines(name))
    assert set(ours) == set(theirs)
    for key in theirs:
        assert _certain(ours[key], racy) == _certain(theirs[key], racy), key
    api.delete(f"/api/v1/namespaces/{name}")
    api.eventually(
        "/api/v1/namespaces", lambda told: name not in [one["metadata"]["name"] for one in told["items"]]
    )


def _certain(steps: list[Step], racy: set[Step | str]) -> list[Step]:
    return [one for one in steps if one not in racy and one[0] not in racy]


def _history(scene: Scene, start: int) -> Iterator[recordings.Line]:
    for kind, plural in (
        ("JobSet", "jobsets"),
        ("Job", "jobs"),
        ("Workload", "workloads"),
        ("Service", "services"),
    ):
        query = {"resourceVersion": str(start), "allowWatchBookmarks": "true"}
        for how, obj in scene.api.watch(scene.path(plural), **query):
            if how == "BOOKMARK":
                break
            yield {"type": how, "kind": kind, "object": obj}


def _set_up(scene: Scene) -> Scene:
    scene.api.post(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.name}}
    )
    for queue in recordings.made(scene.name, "ClusterQueue"):
        scene.api.post(f"{_KUEUE}/clusterqueues", queue)
    if scene.name != "g-no-localqueue":
        _local_queue(scene)
    for number, js in enumerate(recordings.made(scene.name, "JobSet")):
        _with_program(scene, js, number)
        scene.jobsets.append(js)
    return scene


def _local_queue(scene: Scene) -> None:
    for queue in recordings.made(scene.name, "LocalQueue"):
        scene.api.post(scene.path("localqueues"), queue)


def _with_program(scene: Scene, js: Obj, number: int) -> None:
    """Gives the pods of a recorded JobSet a command that does what theirs did."""
    if "ttlSecondsAfterFinished" in js["spec"]:
        js["spec"]["ttlSecondsAfterFinished"] = 1
    pod = js["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    given: dict[str, Any] = {one["name"]: one["value"] for one in container.get("env", [])}
    if "command" in container:
        container["command"][-1] = container["command"][-1].replace("sleep 1", "sleep 0.1")
        return
    label = "metadata.labels['{}']".format
    container["command"] = ["sh", "-c", _PROGRAM.format(stop=float(given.get("FAKE_STOP_DELAY", 0)) / 20)]
    container["env"] = [
        {"name": "GATE", "value": str(scene.folder / f"gate{number}")},
        {"name": "SLICE", "valueFrom": {"fieldRef": {"fieldPath": label("jobset.sigs.k8s.io/job-index")}}},
        {
            "name": "ATTEMPT",
            "valueFrom": {"fieldRef": {"fieldPath": label("jobset.sigs.k8s.io/restart-attempt")}},
        },
        {
            "name": "INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": label("batch.kubernetes.io/job-completion-index")}},
        },
        {"name": "PLACE", "value": "$(SLICE)/$(INDEX)"},
        {"name": "FAKE_ONLY", "value": given.get("FAKE_ONLY", "")},
    ]


def _kueue(kind: str, name: str, **spec: Any) -> Obj:
    made: Obj = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    return {**made, "spec": spec} if spec else made
