"""The template of a replicated job: how many pods, what ends it, and what of its pods' ends makes it fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.targets import kube_policy
from tasks.targets.kube_submission import Object, Submission, given

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig


def job(
    config: GkeTargetConfig,
    submission: Submission,
    pod: Object,
    *,
    pods: int,
    deadline_s: int | None,
    backoff: int = 0,
    annotations: Mapping[str, str] | None = None,
    containers: Sequence[str] = (),
) -> Object:
    """Returns a Job's template. `containers` are those whose exit codes decide; none: they decide nothing."""
    policy = kube_policy.pod_failure_policy(config, containers) if containers else None
    spec = given(
        parallelism=pods,
        completions=pods,
        completionMode="Indexed",
        activeDeadlineSeconds=deadline_s,
        podFailurePolicy=policy,
        template=pod,
    )
    metadata = given(labels=dict(submission.labels), annotations=dict(annotations or {}))
    return given(metadata=metadata) | {"spec": spec | {"backoffLimit": backoff}}
