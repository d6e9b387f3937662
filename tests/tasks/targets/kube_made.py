"""What tests of manifests share: targets from a few words, their JobSets, and what Kubernetes makes of variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_jobset import jobset
from tasks.targets.kube_submission import Object, Submission

IMAGE = "us-docker.pkg.dev/p/slicebench/worker@sha256:" + "0" * 64
PATHWAYS = {
    "server_image": "r/pathways/server:jax_0.10.0",
    "proxy_image": "r/pathways/proxy_server:jax_0.10.0",
}
BOARD = {"instance": "projects/p/locations/l/tensorboards/1", "logdir": "gs://bucket/logs", "image": "r/tb:1"}


def config(**fields: Any) -> GkeTargetConfig:
    """Returns a target of two slices of v5e on a context, with what is said differently."""
    base = {"kind": "gke", "context": "c", "type": "v5litepod-16", "slices": 2}
    if "cluster" in fields:
        del base["context"]
    return GkeTargetConfig.model_validate({**base, **fields})


def submission(**fields: Any) -> Submission:
    """Returns what is submitted: a program of two words, with what is said differently."""
    return Submission(**{"name": "run-1", "image": IMAGE, "command": ["python", "train.py"], **fields})


def made(fields: Mapping[str, Any] | None = None, **submitted: Any) -> Object:
    """Returns a JobSet."""
    return jobset(config(**(fields or {})), submission(**submitted))


def pod_of(jobset: Object, group: str = "slice-job") -> Object:
    """Returns the pod template of a replicated job."""
    return job_of(jobset, group)["template"]


def job_of(jobset: Object, group: str = "slice-job") -> Object:
    """Returns the spec of a replicated job's Jobs."""
    (found,) = [each for each in jobset["spec"]["replicatedJobs"] if each["name"] == group]
    return found["template"]["spec"]


def main_of(jobset: Object, group: str = "slice-job") -> Object:
    """Returns the first container of a replicated job's pods."""
    return pod_of(jobset, group)["spec"]["containers"][0]


def seen(container: Object, pod: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables that a program in the container sees, as the kubelet works them out.

    `pod` holds labels and annotations by their paths; secrets are seen as "secret".
    """
    values: dict[str, str] = {}
    for each in container.get("env", []):
        if "value" in each:
            values[each["name"]] = expanded(each["value"], values)
        elif "fieldRef" in each["valueFrom"]:
            values[each["name"]] = (pod or {}).get(each["valueFrom"]["fieldRef"]["fieldPath"], "")
        else:
            values[each["name"]] = "secret"
    return values


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Returns text as Kubernetes reads it: $(NAME) of a known variable is put in, and $$ is $."""
    told, at = [], 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            told.append(text[at])
            at += 1
        elif text[at + 1] == "$":
            told.append("$")
            at += 2
        elif text[at + 1] == "(" and (end := text.find(")", at)) > 0:
            name = text[at + 2 : end]
            told.append(values.get(name, f"$({name})"))
            at = end + 1
        else:
            told.append(text[at : at + 2])
            at += 2
    return "".join(told)
