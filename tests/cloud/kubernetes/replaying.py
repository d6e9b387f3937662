"""A scenario of the recordings on the stand-in: its objects, with pods that do what the recorded ones did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cloud.kubernetes import recordings
from tests.cloud.kubernetes.manifests import namespace
from tests.cloud.kubernetes.space import Obj, Space
from tests.cloud.kubernetes.stand_in import KubernetesStandIn

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
    api: Space
    name: str
    folder: Path
    jobsets: list[Obj] = field(default_factory=list)

    def post(self, number: int = 0) -> str:
        """Submits one of the recording's JobSets; returns its name."""
        obj = self.jobsets[number]
        self.api.post("jobsets", obj)
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

        self.api.eventually("workloads", "", has)

    def ended(self, name: str) -> None:
        """Waits until a JobSet has ended, and Kueue knows."""
        self.api.eventually("jobsets", name, lambda js: js.get("status", {}).get("terminalState"))

        def finished(told: Obj) -> bool:
            mine = [one for one in told["items"] if one["metadata"]["name"].startswith(f"jobset-{name}-")]
            return any(step["type"] == "Finished" for one in mine for step in one["status"]["conditions"])

        self.api.eventually("workloads", "", finished)

    def gone(self) -> None:
        """Waits until nothing of the JobSets is there."""
        for kind in ("jobsets", "workloads", "jobs", "pods"):
            self.api.gone(kind)


def set_up(scene: Scene) -> Scene:
    """Makes the namespace and the queues of a scenario."""
    scene.api.post("namespaces", namespace(scene.name))
    for queue in recordings.made(scene.name, "ClusterQueue"):
        scene.api.post("clusterqueues", queue)
    if scene.name != "g-no-localqueue":
        local_queue(scene)
    for number, js in enumerate(recordings.made(scene.name, "JobSet")):
        _with_program(scene, js, number)
        scene.jobsets.append(js)
    return scene


def local_queue(scene: Scene) -> None:
    """Makes its LocalQueue."""
    for queue in recordings.made(scene.name, "LocalQueue"):
        scene.api.post("localqueues", queue)


def _with_program(scene: Scene, js: Obj, number: int) -> None:
    """Gives the pods of a recorded JobSet a command that does what theirs did."""
    if "ttlSecondsAfterFinished" in js["spec"]:
        js["spec"]["ttlSecondsAfterFinished"] = 3  # Kueue must hear of the end before, on a busy machine, too
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


def history(scene: Scene, start: int) -> Iterator[recordings.Line]:
    """Iterates over the versions since a resource version, kind by kind."""
    for kind, plural in (
        ("JobSet", "jobsets"),
        ("Job", "jobs"),
        ("Workload", "workloads"),
        ("Service", "services"),
    ):
        query = {"resourceVersion": str(start), "allowWatchBookmarks": "true"}
        for how, obj in scene.api.watch(plural, **query):
            if how == "BOOKMARK":
                break
            yield {"type": how, "kind": kind, "object": obj}
