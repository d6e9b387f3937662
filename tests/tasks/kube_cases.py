"""Small cases about JobSets, one YAML file each: what the cluster has in a few words, and what we are to tell of it.

Conditions are `Type: [status, reason, message]`, with seconds since the JobSet was made as a fourth where it matters.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runtime.contract.errors import Place
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Line, Seen
from tasks.targets.kube_found import Found
from tasks.targets.kube_objects import Objects, select
from tasks.targets.kube_states import look

CASES = Path(__file__).parents[1] / "cases/kube"
BEGAN = datetime.datetime(2026, 11, 27, 12, 0, 0, tzinfo=datetime.UTC)

Told = Mapping[str, Any]


def case_names() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.yaml"))


@dataclass(frozen=True)
class Case:
    """One case; `before` is what was there at an earlier look, if there was one."""

    told: Told
    objects: Objects
    found: Found

    @property
    def expect(self) -> Told:
        wanted: Told = self.told["expect"]
        return wanted

    def scene(self) -> KubeScene:
        classes, workload_classes = self.told.get("classes"), self.told.get("workload_classes")
        return KubeScene(
            "w",
            self.objects,
            self.found,
            (BEGAN + datetime.timedelta(seconds=self.told.get("now", 100))).timestamp(),
            "c",
            classes,
            workload_classes,
            [Line(Place("w-s-0-0"), text) for text in self.told.get("lines", ())],
            [
                Seen(worker, step, step, 1.0, Line(Place(f"worker {worker}"), step))
                for worker, step in self.told.get("workers", ())
            ],
            nodes=[_node(node, ready) for node, ready in self.told["nodes"].items()]
            if "nodes" in self.told
            else None,
            cluster_queues=[_cluster_queue(*one) for one in self.told.get("cluster_queues", {}).items()],
        )


def case(name: str) -> Case:
    told = yaml.safe_load((CASES / f"{name}.yaml").read_text())
    last = look(objects_of(told["before"])) if "before" in told else None
    objects = objects_of(told)
    return Case(told, objects, look(objects, last))


def objects_of(told: Told) -> Objects:
    known = [
        *([_jobset(told["jobset"] or {})] if "jobset" in told else ()),
        *([_workload("jobset-w", told["workload"], owner="js")] if "workload" in told else ()),
        *(_workload(one["name"], one, owner=one["name"]) for one in told.get("others", ())),
        *(_job(one) for one in told.get("jobs", ())),
        *(_pod(number, one) for number, one in enumerate(told.get("pods", ()))),
        *(_event(number, one) for number, one in enumerate(told.get("events", ()))),
        *(_queue(local, cluster) for local, cluster in (told.get("queues") or {}).items()),
    ]
    return select("js", known, _jobset(told["deleted"] or {}) if "deleted" in told else None)


def _at(seconds: float) -> str:
    return (BEGAN + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(told: Told) -> list[Told]:
    return [
        {
            "type": kind,
            "status": str(one[0]),
            "reason": one[1],
            "message": one[2],
            "lastTransitionTime": _at(one[3] if len(one) > 3 else 1),
        }
        for kind, one in (told or {}).items()
    ]


def _meta(
    name: str, uid: str, at: float = 0, deleted: float | None = None, grace: int = 0, **more: Any
) -> Told:
    going = {"deletionTimestamp": _at(deleted), "deletionGracePeriodSeconds": grace} if deleted else {}
    return {"name": name, "namespace": "n", "uid": uid, "creationTimestamp": _at(at), **going, **more}


def _jobset(told: Told) -> Told:
    labels = {"kueue.x-k8s.io/queue-name": "q"} if told.get("queue", True) else {}
    pod: dict[str, Any] = {"nodeSelector": told.get("selector", {})}
    pod |= {"priorityClassName": told["priority_class"]} if "priority_class" in told else {}
    job = {"parallelism": told.get("pods", 2), "template": {"spec": pod}}
    rjobs = [{"name": "s", "replicas": told.get("replicas", 1), "template": {"spec": job}}]
    status = {"conditions": _conditions(told.get("conditions", {})), **told.get("status", {})}
    meta = _meta("w", "js", deleted=told.get("deleted"), labels={**labels, **told.get("labels", {})})
    meta = {**meta, "finalizers": told.get("finalizers", [])}
    spec = {"suspend": told.get("suspend", False), "replicatedJobs": rjobs}
    return {"kind": "JobSet", "metadata": meta, "spec": spec, "status": status}


def _workload(name: str, told: Told, owner: str) -> Told:
    status: dict[str, Any] = {"conditions": _conditions(told.get("conditions", {})), **told.get("status", {})}
    if told.get("admitted"):
        status["admission"] = {"clusterQueue": told["admitted"]}
    spec: dict[str, Any] = {"queueName": told.get("queue", "q"), "priority": told.get("priority", 0)}
    spec |= {"podSets": [{"name": "s", "count": told["pods"]}]} if "pods" in told else {}
    spec |= {"active": told["active"]} if "active" in told else {}
    spec |= {"priorityClassRef": {"name": told["class"]}} if "class" in told else {}
    owners = [{"kind": "JobSet", "name": "w" if owner == "js" else owner, "uid": owner}]
    meta = _meta(name, told.get("uid", name), told.get("at", 0), ownerReferences=owners)
    return {
        "kind": "Workload",
        "metadata": {**meta, "namespace": told.get("namespace", "n")},
        "spec": spec,
        "status": status,
    }


def _job(told: Told) -> Told:
    labels = {
        "jobset.sigs.k8s.io/jobset-uid": "js",
        "jobset.sigs.k8s.io/restart-attempt": str(told.get("attempt", 0)),
    }
    name = f"w-s-{told.get('index', 0)}"
    status = {"conditions": _conditions(told.get("conditions", {}))}
    return {"kind": "Job", "metadata": _meta(name, name, labels=labels), "status": status}


def _pod(number: int, told: Told) -> Told:
    job, index = told.get("job", 0), told.get("index", 0)
    labels = {
        "jobset.sigs.k8s.io/jobset-uid": "js",
        "jobset.sigs.k8s.io/restart-attempt": str(told.get("attempt", 0)),
        "jobset.sigs.k8s.io/replicatedjob-name": "s",
        "jobset.sigs.k8s.io/job-index": str(job),
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-name": f"w-s-{job}",
    }
    containers = [_container("c", told), *(_container(one["name"], one) for one in told.get("beside", ()))]
    status = {
        "phase": told.get("phase", "Running"),
        "conditions": _conditions(told.get("conditions", {})),
        "containerStatuses": [] if told.get("silent") else containers,
        **told.get("status", {}),
    }
    if sidecars := told.get("sidecars"):
        status["initContainerStatuses"] = [_container(one["name"], one) for one in sidecars]
    spec = {
        "containers": [{"name": "c", "image": "r/i:1"}],
        "nodeName": told.get("node", ""),
        "nodeSelector": told.get("selector", {}),
        "affinity": told.get("affinity", {}),
        "initContainers": [
            {
                "name": one["name"],
                "restartPolicy": "Always",
                **({"startupProbe": one["probe"]} if "probe" in one else {}),
            }
            for one in told.get("sidecars", ())
        ],
    }
    name = told.get("name", f"w-s-{job}-{index}-p{number}")
    meta = _meta(name, name, told.get("at", 2), told.get("deleted"), told.get("grace", 0), labels=labels)
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _container(name: str, told: Told) -> Told:
    state: dict[str, Any] = {}
    if "waiting" in told:
        state = {"waiting": {"reason": told["waiting"][0], "message": told["waiting"][1]}}
    elif "exit" in told:
        state = {"terminated": _terminated(told["exit"])}
    elif told.get("phase", "Running") == "Running":
        state = {"running": {"startedAt": _at(3)}}
    last = {"terminated": _terminated(told["last_exit"])} if "last_exit" in told else {}
    counted = {name: told[name] for name in ("restartCount", "started") if name in told}
    return {"name": name, "state": state, "lastState": last, **counted}


def _terminated(told: Sequence[Any]) -> Told:
    code, reason, message, at, began = (*told, *(0, "Error", "", 5, 3)[len(told) :])
    times = {"startedAt": _at(began), "finishedAt": _at(at)}
    return {"exitCode": code, "reason": reason, "message": message, **times}


def _node(node: str, ready: Sequence[Any]) -> Told:
    return {
        "kind": "Node",
        "metadata": _meta(node, node),
        "status": {"conditions": _conditions({"Ready": ready})},
    }


def _event(number: int, told: Sequence[Any]) -> Told:
    reason, kind, about, message = told
    return {
        "kind": "Event",
        "metadata": _meta(f"e{number}", f"e{number}", number),
        "involvedObject": {
            "kind": kind,
            "name": about,
            "uid": {"JobSet": "js", "Workload": "jobset-w"}.get(kind, about),
        },
        "reason": reason,
        "message": message,
    }


def _queue(local: str, cluster: str | Sequence[Any]) -> Told:
    """Makes a LocalQueue: of this ClusterQueue, or, where that is a list, with what it says of itself beside."""
    namespace, _, name = local.rpartition("/")
    meta = {**_meta(name, f"queue {local}"), "namespace": namespace or "n"}
    behind, *active = [cluster] if isinstance(cluster, str) else cluster
    status = {"conditions": _conditions({"Active": active} if active else {})}
    return {"kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": behind}, "status": status}


def _cluster_queue(name: str, active: Sequence[Any]) -> Told:
    status = {"conditions": _conditions({"Active": active})}
    return {"kind": "ClusterQueue", "metadata": _meta(name, name), "status": status}
