"""The JobSet of an attempt: what its pods run and are told, and how it is made, so that it may be asked for again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from runtime.contract.names import SECRET_NAMES_VARIABLE
from runtime.contract.pod import (
    ADDRESS_VARIABLE,
    CONTAINERS_VARIABLE,
    JOB_VARIABLE,
    RENDEZVOUS_VARIABLE,
    RUN_VARIABLE,
    TOKEN_VARIABLE,
)
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import JOB_SET, SECRET
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets.kube_jobset import groups, jobset, secret
from tasks.targets.kube_names import jobset_name, name_problem
from tasks.targets.kube_submission import Submission
from tasks.targets.kube_template import address_of
from tasks.targets.types import Workload

COMMAND = ("python", "-m", "runtime.pod")

_PORTS = (20_000, 29_999)
"""Below those that kernels give away, and Kubernetes' node ports: pods may be on their hosts' networks."""


def name_of_attempt(config: GkeTargetConfig, lease_id: str, attempt: int) -> str:
    """Returns the name of an attempt's JobSet, the same each time. The first may be named by the config."""
    part = "" if attempt == 1 else f"a{attempt}"
    if config.workload_name is not None:
        named = config.workload_name if attempt == 1 else f"{config.workload_name}-{part}"
        if attempt == 1 or name_problem(named, groups(config)) is None:
            return named
    return jobset_name(lease_id, groups(config), part)


def submission(
    config: GkeTargetConfig,
    name: str,
    image: str,
    workload: Workload,
    job: str,
    labels: Mapping[str, str],
    token: str,
) -> Submission:
    """Returns what is submitted. `job` is the name of the job file in the run's folder."""
    hidden = {one for one in workload.env.get(SECRET_NAMES_VARIABLE, "").split(",") if one}
    env = {
        **{key: value for key, value in workload.env.items() if key not in hidden},
        RUN_VARIABLE: workload.output,
        JOB_VARIABLE: job,
        RENDEZVOUS_VARIABLE: f"{address_of(name)}:{port_of(name)}",
    }
    if config.containers_per_host > 1:
        env[CONTAINERS_VARIABLE] = str(config.containers_per_host)
    return Submission(
        name=name,
        image=image,
        command=COMMAND,
        env=env,
        secrets={
            **{key: value for key, value in workload.env.items() if key in hidden},
            TOKEN_VARIABLE: token,
        },
        fields={ADDRESS_VARIABLE: "status.podIP"},
        labels=labels,
        sidecar=workload.sidecar,
        supervised=True,
        once=workload.renewed,  # by attempts, each of which has its results and checkpoints to itself
    )


def submit(cluster: Kubernetes, config: GkeTargetConfig, asked: Submission) -> str:
    """Makes the JobSet and then its Secret, which pods wait for; returns the uid. What of both is there, and ours, is
    taken as it is.
    """
    made = cluster.create(JOB_SET, jobset(config, asked))
    uid = str(made["metadata"]["uid"])
    kept = secret(config, asked, uid)
    if kept is not None:
        cluster.create(SECRET, kept)
    return uid


def new_token() -> str:
    """Returns by what the supervisors of an attempt know each other."""
    return secrets.token_hex(16)


def port_of(name: str) -> int:
    """Returns the port at which the first worker's supervisor listens: another for another attempt."""
    first, last = _PORTS
    return first + int(hashlib.sha256(name.encode()).hexdigest(), 16) % (last - first + 1)
