"""Objects that the tests of the stand-in send to it."""

from __future__ import annotations

from typing import Any

TPU = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
    "cloud.google.com/gke-tpu-topology": "4x4",
}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}


def jobset(
    name: str,
    program: str = "pass",
    *,
    slices: int = 2,
    pods: int = 2,
    queue: str = "",
    labels: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Returns a JobSet whose pods each run a Python program; `pod`, `job` and more fields replace what is here."""
    container = {
        "name": "jax-tpu",
        "image": "gcr.io/p/img:1",
        "command": ["python", "-u", "-c", program],
        "resources": {"limits": {"google.com/tpu": "4"}},
    }
    pod_spec = {
        "restartPolicy": "Never",
        "nodeSelector": TPU,
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
        "containers": [container],
        **(pod or {}),
    }
    template = {
        "backoffLimit": 0,
        "completions": pods,
        "parallelism": pods,
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec},
        **(job or {}),
    }
    queued = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": EXCLUSIVE, "labels": {**queued, **(labels or {})}},
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            **spec,
            "replicatedJobs": [{"name": "slice-job", "replicas": slices, "template": {"spec": template}}],
        },
    }


def pod(name: str, program: str = "pass", **spec: Any) -> dict[str, Any]:
    """Returns a pod that runs a Python program."""
    container = {"name": "main", "image": "img:1", "command": ["python", "-u", "-c", program]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """Returns a ConfigMap: the plainest object there is."""
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def kueue(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Returns an object of Kueue's; without fields it has no spec."""
    made: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
    return {**made, "spec": spec} if spec else made


def cluster_queue(name: str, chips: int = 32, flavor: str = "v5e", **spec: Any) -> dict[str, Any]:
    """Returns a ClusterQueue with so many chips of one flavor."""
    quota = [{"name": "google.com/tpu", "nominalQuota": str(chips)}]
    group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": flavor, "resources": quota}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    return kueue(
        "ClusterQueue", name, namespaceSelector={}, resourceGroups=[group], preemption=preemption, **spec
    )


def namespace(name: str) -> dict[str, Any]:
    """Returns a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
