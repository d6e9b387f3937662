"""The Jobs and the headless Service that a JobSet makes: names, labels, annotations."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.cloud.kubernetes import jobset_rules
from tests.cloud.kubernetes.placement import TOPOLOGY
from tests.cloud.kubernetes.store import Obj, copied

PREFIX = "jobset.sigs.k8s.io/"
ATTEMPT = PREFIX + "restart-attempt"
RJOB = PREFIX + "replicatedjob-name"


def service(js: Obj) -> Obj:
    """Returns the Service that gives the pods their names."""
    return {
        "metadata": {
            "name": jobset_rules.subdomain(js),
            "namespace": js["metadata"]["namespace"],
            "ownerReferences": [owner(js)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {PREFIX + "jobset-name": js["metadata"]["name"]},
            "publishNotReadyAddresses": js["spec"]["network"]["publishNotReadyAddresses"],
        },
    }


def owner(obj: Obj) -> dict[str, Any]:
    """Returns the reference that makes an object the controller of another."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def job_name(js: Obj, rjob: dict[str, Any], index: int) -> str:
    """Returns the name of a Job."""
    return f"{js['metadata']['name']}-{rjob['name']}-{index}"


def job(js: Obj, rjob: dict[str, Any], index: int) -> Obj:
    """Returns a Job to create."""
    marks = _marks(js, rjob, index)
    template = copied(rjob["template"])
    meta = template.get("metadata") or {}
    topology = (js["metadata"].get("annotations") or {}).get(TOPOLOGY)
    topology = topology or (meta.get("annotations") or {}).get(TOPOLOGY)
    notes = {**marks, **({TOPOLOGY: topology} if topology else {})}
    spec = template["spec"]
    pods = spec["template"].setdefault("metadata", {})
    pods["labels"] = {**(pods.get("labels") or {}), **marks}
    pods["annotations"] = {**(pods.get("annotations") or {}), **notes}
    if js["spec"]["network"]["enableDNSHostnames"]:
        spec["template"]["spec"].setdefault("subdomain", jobset_rules.subdomain(js))
    spec["suspend"] = bool(js["spec"].get("suspend"))
    return {
        "metadata": {
            "name": job_name(js, rjob, index),
            "namespace": js["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **marks},
            "annotations": {**(meta.get("annotations") or {}), **notes},
            "ownerReferences": [owner(js)],
        },
        "spec": spec,
    }


def _marks(js: Obj, rjob: dict[str, Any], index: int) -> dict[str, str]:
    name, space = js["metadata"]["name"], js["metadata"]["namespace"]
    before, group_before, total, group_total = 0, 0, 0, 0
    passed = False
    for one in js["spec"]["replicatedJobs"]:
        passed = passed or one["name"] == rjob["name"]
        same = one["groupName"] == rjob["groupName"]
        total += one["replicas"]
        group_total += one["replicas"] if same else 0
        if not passed:
            before += one["replicas"]
            group_before += one["replicas"] if same else 0
    marks = {
        "global-replicas": total,
        "group-name": rjob["groupName"],
        "group-replicas": group_total,
        "job-global-index": before + index,
        "job-group-index": group_before + index,
        "job-index": index,
        "job-key": hashlib.sha1(f"{space}/{job_name(js, rjob, index)}".encode()).hexdigest(),
        "jobset-name": name,
        "jobset-uid": js["metadata"]["uid"],
        "replicatedjob-name": rjob["name"],
        "replicatedjob-replicas": rjob["replicas"],
        "restart-attempt": js.get("status", {}).get("restarts", 0),
    }
    if where := jobset_rules.coordinator(js):
        marks["coordinator"] = where
    return {PREFIX + key: str(value) for key, value in marks.items()}
