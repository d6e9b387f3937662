"""An uploader of TensorBoard events, as a job of the JobSet that its success does not wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.targets.kube_jobs import job
from tasks.targets.kube_submission import Object, Parts, Submission, literal
from tasks.targets.kube_template import pod_template

if TYPE_CHECKING:
    from tasks.config.gke_parts import TensorBoard
    from tasks.config.gke_target import GkeTargetConfig

UPLOADER = "tensorboard"

_TRIES = 1000
"""Of an uploader that fails, so many that the workload never fails for it: Kubernetes waits ever longer between."""


def uploader(
    config: GkeTargetConfig, submission: Submission, board: TensorBoard, deadline_s: int | None
) -> Object:
    """Returns the replicated job. It goes with the JobSet's other jobs once those that count have succeeded."""
    words = [
        "tb-gcp-uploader",
        f"--tensorboard_resource_name={board.instance}",
        f"--logdir={board.logdir}",
        f"--experiment_name={board.experiment or submission.name}",
    ]
    container: Object = {
        "name": UPLOADER,
        "image": board.image,
        "command": [literal(word) for word in words],
    }
    pod = pod_template(
        config, submission, Parts(), containers=[container], selector={}, restart_policy="OnFailure"
    )
    template = job(config, submission, pod, pods=1, deadline_s=deadline_s, backoff=_TRIES)
    return {"name": UPLOADER, "replicas": 1, "template": template}
