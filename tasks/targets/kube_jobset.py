"""The JobSet of a workload, and the Secret that it owns: pure functions from config and submission to objects.

One replicated job is the slices, each of its jobs one slice, each pod one host. Nothing in an object is null or empty:
server-side apply refuses the one, and the other would be a wish of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.cloud.kubernetes_labels import EXCLUSIVE, LONGEST_RUN, QUEUE_NAME
from tasks.targets import kube_pathways, kube_policy, kube_tensorboard
from tasks.targets.kube_jobs import job
from tasks.targets.kube_names import Group
from tasks.targets.kube_submission import Object, Submission, given
from tasks.targets.kube_template import SLICE_JOB, container_names, worker_pod

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

API_VERSION = "jobset.x-k8s.io/v1alpha2"


def groups(config: GkeTargetConfig) -> list[Group]:
    """Returns the replicated jobs of a workload, as far as names go."""
    if config.pathways is not None:
        made = [
            Group(kube_pathways.HEAD, 1, 1),
            Group(kube_pathways.WORKER, config.slices, config.shape.hosts),
        ]
    else:
        made = [Group(SLICE_JOB, config.slices, config.shape.hosts)]
    if config.tensorboard is not None:
        made.append(Group(kube_tensorboard.UPLOADER, 1, 1))
    return made


def jobset(config: GkeTargetConfig, submission: Submission) -> Object:
    """Returns the JobSet. `checked` of kube_check.py says what is wrong with one before it is submitted."""
    deadline_s = submission.deadline_s or config.limits.workload_s
    queue = {QUEUE_NAME: config.queue} if config.queue else {}
    limit = {LONGEST_RUN: str(deadline_s)} if deadline_s and config.queue else {}
    if config.pathways is not None:
        spec = kube_pathways.spec(config, submission, config.pathways, deadline_s)
        annotations = {}
    else:
        spec = _spec(config, submission, deadline_s)
        annotations = given(**{EXCLUSIVE: config.exclusive_label})
    if config.tensorboard is not None:
        spec["replicatedJobs"].append(
            kube_tensorboard.uploader(config, submission, config.tensorboard, deadline_s)
        )
        if config.pathways is None:  # its success is its head's as it is
            spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [SLICE_JOB]}
    metadata = given(
        name=submission.name,
        namespace=config.namespace,
        labels={**submission.labels, **queue, **limit},
        annotations=annotations,
    )
    if config.limits.ttl_s is not None:
        spec["ttlSecondsAfterFinished"] = config.limits.ttl_s
    return {"apiVersion": API_VERSION, "kind": "JobSet", "metadata": metadata, "spec": spec}


def secret(config: GkeTargetConfig, submission: Submission, uid: str) -> Object | None:
    """Returns the Secret with the values of a submission's secrets, owned by its JobSet; None when it has none.

    `uid` is the JobSet's: it is made first, and its pods wait until their Secret is there.
    """
    if not submission.kept:
        return None
    owner = {"apiVersion": API_VERSION, "kind": "JobSet", "name": submission.name, "uid": uid}
    metadata = given(
        name=submission.secret_name,
        namespace=config.namespace,
        labels=dict(submission.labels),
        ownerReferences=[owner],
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(submission.kept),
    }


def _spec(config: GkeTargetConfig, submission: Submission, deadline_s: int | None) -> Object:
    template = job(
        config,
        submission,
        worker_pod(config, submission),
        pods=config.shape.hosts,
        deadline_s=deadline_s,
        containers=container_names(config),
    )
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": kube_policy.failure_policy(
            config, deadline=deadline_s is not None, once=submission.once
        ),
        "replicatedJobs": [{"name": SLICE_JOB, "replicas": config.slices, "template": template}],
    }
