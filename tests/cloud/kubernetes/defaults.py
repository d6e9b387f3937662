"""What the API server and the webhooks fill in: defaults of Pods, Jobs, JobSets, Services, Secrets, queues."""

from __future__ import annotations

import base64
from typing import Any

from tests.cloud.kubernetes.store import Obj


def fill(qualified: str, obj: Obj) -> None:
    """Fills in the defaults of one kind, in place."""
    if made := _BY_KIND.get(qualified):
        made(obj)


def pod_spec(spec: dict[str, Any]) -> None:
    """Fills in a pod's specification."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        container.setdefault("resources", {})
        limits = container["resources"].get("limits")
        if limits:
            container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image", ""))
        latest = "@" not in image and (":" not in image.rpartition("/")[2] or image.endswith(":latest"))
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def _pod(obj: Obj) -> None:
    spec = obj["spec"]
    pod_spec(spec)
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    spec.setdefault("priority", 0)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = list(spec.get("tolerations") or [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(one.get("key") == key for one in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    spec["tolerations"] = tolerations
    obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def _job(obj: Obj) -> None:
    spec = obj["spec"]
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    fallback = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", fallback)
    pod_spec(spec["template"].setdefault("spec", {}))
    obj["status"] = {}


def _cronjob(obj: Obj) -> None:
    spec = obj["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    pod_spec(spec["jobTemplate"]["spec"]["template"].setdefault("spec", {}))
    obj["status"] = {}


def _jobset(obj: Obj) -> None:
    spec = obj["spec"]
    for job in spec.get("replicatedJobs") or []:
        job.setdefault("replicas", 1)
        job.setdefault("groupName", "default")
        job["template"].setdefault("metadata", {})
        inner = job["template"].setdefault("spec", {})
        inner.setdefault("completionMode", "Indexed")
        inner.setdefault("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    spec.setdefault("successPolicy", {"operator": "All"})
    if policy := spec.get("failurePolicy"):
        policy.setdefault("maxRestarts", 0)
        policy.setdefault("restartStrategy", "Recreate")
        for number, rule in enumerate(policy.get("rules") or []):
            rule.setdefault("name", f"failurePolicyRule{number}")
    obj.pop("status", None)


def _service(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("clusterIP", "10.96.0.10")
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    obj["status"] = {"loadBalancer": {}}


def _secret(obj: Obj) -> None:
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _namespace(obj: Obj) -> None:
    obj.setdefault("spec", {"finalizers": ["kubernetes"]})
    obj["status"] = {"phase": "Active"}
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def _in_use(obj: Obj) -> None:
    """Kueue itself lets go of it, once nothing uses it any more."""
    obj["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]


def _cluster_queue(obj: Obj) -> None:
    _in_use(obj)
    spec = obj.setdefault("spec", {})
    spec.setdefault("queueingStrategy", "BestEffortFIFO")
    spec.setdefault("stopPolicy", "None")
    spec.setdefault(
        "flavorFungibility", {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"}
    )
    preemption = spec.setdefault("preemption", {})
    preemption.setdefault("borrowWithinCohort", {"policy": "Never"})
    preemption.setdefault("reclaimWithinCohort", "Never")
    preemption.setdefault("withinClusterQueue", "Never")


def _local_queue(obj: Obj) -> None:
    obj.setdefault("spec", {}).setdefault("stopPolicy", "None")


_BY_KIND = {
    "pods": _pod,
    "jobs.batch": _job,
    "cronjobs.batch": _cronjob,
    "jobsets.jobset.x-k8s.io": _jobset,
    "services": _service,
    "secrets": _secret,
    "namespaces": _namespace,
    "clusterqueues.kueue.x-k8s.io": _cluster_queue,
    "localqueues.kueue.x-k8s.io": _local_queue,
    "resourceflavors.kueue.x-k8s.io": _in_use,
}
