"""What a kubelet reports of a pod: phase, conditions, the states of its containers."""

from __future__ import annotations

import random
from typing import Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.containers import Container
from tests.cloud.kubernetes.store import Obj


def put_all(pod: Obj, containers: list[Container], inits: list[Container]) -> None:
    """Sets a pod's status, in place."""
    status = pod["status"]
    status["containerStatuses"] = [one.status() for one in containers]
    if inits:
        status["initContainerStatuses"] = [one.status() for one in inits]
    status.setdefault("startTime", clock.seconds_text())
    status["hostIP"] = "127.0.0.1"
    status["phase"] = _phase(pod, containers, inits)
    if status["phase"] == "Running" and "podIP" not in status:
        # Nobody can reach this address: all pods are processes of this machine.
        status["podIP"] = f"10.244.{random.randrange(256)}.{random.randrange(1, 255)}"
        status["podIPs"] = [{"ip": status["podIP"]}]
    status["qosClass"] = status.pop("qosClass", "BestEffort")
    _conditions(pod, containers, inits)


def _phase(pod: Obj, containers: list[Container], inits: list[Container]) -> str:
    policy = pod["spec"]["restartPolicy"]
    codes = [one.exit_code for one in containers]
    if any(one.exit_code for one in inits if one.spec.get("restartPolicy") != "Always") and policy == "Never":
        return "Failed"
    over = all(code is not None for code in codes) and all(not one.waiting_to_restart for one in containers)
    over = over and not any(one.running for one in inits)  # what stands beside them ends after them
    ends = policy == "Never" or "deletionTimestamp" in pod["metadata"]
    if over and (ends or (policy == "OnFailure" and not any(codes))):
        return "Failed" if any(codes) else "Succeeded"
    if any(one.started for one in containers):
        return "Running"
    return "Pending"


def _conditions(pod: Obj, containers: list[Container], inits: list[Container]) -> None:
    phase = pod["status"]["phase"]
    beside = [one for one in inits if one.spec.get("restartPolicy") == "Always"]
    unready = [one.name for one in (*beside, *containers) if not one.up]
    over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "")
    told = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
    todo = [one for one in inits if not (one.up if one in beside else one.exit_code == 0)]
    if any(one.started for one in containers):
        todo = []
    scheduled = [one for one in pod["status"].get("conditions") or [] if one["type"] == "PodScheduled"]
    others = [one for one in pod["status"].get("conditions") or [] if one["type"] not in _ORDER]
    before = {one["type"]: one for one in pod["status"].get("conditions") or []}
    made: Obj = {
        "status": {
            "conditions": [before[kind] for kind in _ORDER if kind in before and kind != "PodScheduled"]
        }
    }
    probe: dict[str, Any] = {"lastProbeTime": None}
    put(made, "PodReadyToStartContainers", "False" if over else "True", **probe)
    if todo and not over:
        listed = f"containers with incomplete status: [{' '.join(one.name for one in todo)}]"
        put(made, "Initialized", "False", "ContainersNotInitialized", listed, **probe)
    else:
        put(made, "Initialized", "True", "PodCompleted" if phase == "Succeeded" else "", **probe)
    ready = "False" if unready or over else "True"
    why = over or ("ContainersNotReady" if unready else "")
    put(made, "Ready", ready, why, told, **probe)
    put(made, "ContainersReady", ready, why, told, **probe)
    pod["status"]["conditions"] = [*made["status"]["conditions"], *scheduled, *others]


_ORDER = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
