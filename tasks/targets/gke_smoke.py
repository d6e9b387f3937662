"""Tries an image in one pod of a cluster, before slices are taken for it: once for each image, account and output.

The pod is like the workers', but one, on any node, without chips and outside of the queue. It leaves what it tried in
the run's output, where the next run finds it: that it could write there is a part of what is proven.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import InfrastructureError
from runtime.contract.names import SECRET_NAMES_VARIABLE
from tasks.cloud.image_smoke import JAX_AND_ORBAX, OF_THE_PROXY, smoke_command, smoke_failures
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import KubernetesError, Unavailable
from tasks.cloud.kubernetes_kinds import POD
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.cloud.storage import open_folder, read_json
from tasks.leases.holding import Holding
from tasks.leases.jobsets import JOBSET
from tasks.targets.gke_plan import TRIAL_S, trial_name
from tasks.targets.gke_submit import submit
from tasks.targets.gke_waiting import HOPELESS
from tasks.targets.gke_watch import Seen, objects_of
from tasks.targets.kube_found import Found, KubeState
from tasks.targets.kube_objects import created_at
from tasks.targets.kube_objects import name as name_of
from tasks.targets.kube_pods import CANNOT_START
from tasks.targets.kube_submission import Submission
from tasks.targets.kube_template import address_of

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.targets.types import Workload

PROOFS = ".images"
"""Folder in an output with what was tried: no run can be called so."""

_ARCHITECTURE = {"kubernetes.io/arch": "amd64"}
"""Of nodes that our images are for: a cluster may have others."""

_WITHOUT: Mapping[str, Any] = {
    "cluster": None, "type": "cpu", "topology": None, "nodes": 1, "slices": 1, "containers_per_host": 1,
    "devices_per_worker": "auto", "platform": "cpu", "cpu": None, "memory": None, "gpu_networks": None, "queue": None,
    "scheduler": None, "exclusive_topology": None, "pod_annotations": {}, "max_restarts": 0,
    "restart_on_user_code_failure": False, "restart_exit_codes": (), "ramdisk": None, "debug_dump": None,
    "ops_agent": None, "tensorboard": None, "pathways": None, "workload_name": None,
}  # fmt: skip
"""What the workers' pods have and this one does without. All else is theirs: account, secrets, shared folder."""

_TTL_S, _GRACE_S = 600, 1
_NO_RUNTIME = re.compile(r"No module named '?runtime\b")


class DoesNotWork(InfrastructureError):
    """An image cannot run workers on this cluster, or it could not be found out."""


@dataclass(frozen=True)
class Waits:
    """Seconds: for the whole of it, for a container that cannot start, between looks."""

    total_s: int = TRIAL_S
    stuck_s: float = 120.0
    look_s: float = 0.3


@dataclass(frozen=True)
class Subject:
    """What is tried: an image by digest, for a workload, by the pods of a target. `scope`: where, as leases have it."""

    image: str
    workload: Workload
    config: GkeTargetConfig
    scope: str

    @property
    def output(self) -> str:
        """The folder that runs write into."""
        return self.workload.output.rstrip("/").rpartition("/")[0] or "/"

    @property
    def proof(self) -> str:
        """Name of the file with the result: another one for another image, place or account."""
        of = [self.image, self.scope, self.config.service_account, self.config.uses_host_network]
        of += ["proxy"] if self.config.encryption is not None else []
        return f"{hashlib.sha256(json.dumps(of).encode()).hexdigest()[:20]}.json"

    def is_proven(self) -> bool:
        """Whether a pod has tried all of it with success. Raises InfrastructureError."""
        told = read_json(open_folder(self.output), f"{PROOFS}/{self.proof}")
        steps: list[Any] = (told.get("steps") if isinstance(told, dict) else None) or []
        return bool(steps) and all(isinstance(one, dict) and one.get("ok") is True for one in steps)


def prove(
    subject: Subject, cluster: Kubernetes, lease: Holding, say: Callable[[str], None], waits: Waits
) -> None:
    """Sees that an image works, unless that is known. Raises DoesNotWork, with the steps that failed."""
    if subject.is_proven():
        return
    config = trial_config(subject.config)
    name = trial_name(lease.lease.lease_id)
    asked = trial(subject, name, lease.resource_labels, waits)
    say(f"{subject.image} is new on this cluster: it is tried in a pod first (smoke: false leaves that out)")
    ref = lease.create(
        JOBSET, subject.scope, name, lambda: submit(cluster, config, asked),
        dead_man=f"{waits.total_s} s after it began",
    )  # fmt: skip
    assert ref.uid is not None
    found = _awaited(subject, cluster, config, name, ref.uid, waits)
    if found.state != KubeState.SUCCEEDED:
        raise _failure(subject, found, _said(cluster, config, ref.uid))
    lease.discard(ref)
    if subject.is_proven():
        say("it works: names are resolved, JAX and Orbax imported, and the output written to")
    else:
        where = f"{subject.output}/{PROOFS}/{subject.proof}"
        say(f"it works, but {where} of its pod is not seen from here: is the output the same folder there?")


def trial_config(config: GkeTargetConfig) -> GkeTargetConfig:
    """Returns a target whose only pod is like the workers', but for chips, queue, and which node it is on."""
    # What is said of the workers' nodes is said of those with accelerators, unless there are none.
    selector = config.node_selector if config.shape.kind == "cpu" else {}
    limits = {"workload_s": None, "ttl_s": _TTL_S, "termination_grace_s": _GRACE_S}
    changed = {
        **_WITHOUT,
        # On the network of its host a pod has another identity than on its own.
        "host_network": config.uses_host_network,
        "node_selector": {**_ARCHITECTURE, **selector},
        "limits": config.limits.model_copy(update=limits),
    }
    return config.model_copy(update=changed)


def trial(subject: Subject, name: str, labels: Mapping[str, str], waits: Waits) -> Submission:
    """Returns what is submitted: the environment is the workers', secrets included, the command another."""
    env = subject.workload.env
    hidden = {one for one in env.get(SECRET_NAMES_VARIABLE, "").split(",") if one}
    output = f"{subject.output.rstrip('/')}/{PROOFS}"
    # The encrypting proxy runs in the workers' image, beside them.
    imports = (*JAX_AND_ORBAX, *OF_THE_PROXY) if subject.config.encryption is not None else ()
    return Submission(
        name=name,
        image=subject.image,
        command=smoke_command(output, (address_of(name),), subject.proof, imports),
        env={key: value for key, value in env.items() if key not in hidden},
        secrets={key: value for key, value in env.items() if key in hidden},
        labels=labels,
        deadline_s=waits.total_s,
    )


def _awaited(
    subject: Subject, cluster: Kubernetes, config: GkeTargetConfig, name: str, uid: str, waits: Waits
) -> Found:
    """Returns how it ended. Raises DoesNotWork where it cannot begin, or does not in time."""
    seen, give_up = Seen(config, uid), time.monotonic() + waits.total_s
    stuck_since: float | None = None
    while True:
        now = time.monotonic()
        try:
            found = seen.replace(objects_of(cluster, name, uid))
        except Unavailable:
            if now >= give_up:
                raise
            time.sleep(waits.look_s)
            continue
        if found.over:
            return found
        stuck_since = (stuck_since or now) if found.reason in CANNOT_START else None
        hopeless = found.reason in HOPELESS or (
            stuck_since is not None and now - stuck_since >= waits.stuck_s
        )
        if hopeless:
            raise DoesNotWork(
                f"{subject.image} cannot be started on this cluster: {found.reason}: {found.message}"
            )
        if now >= give_up:
            raise DoesNotWork(
                f"{subject.image} could not be tried within {waits.total_s} s: {found.state}: {found.message}: "
                "fix that, or leave it out with smoke: false in the target file"
            )
        time.sleep(waits.look_s)


def _said(cluster: Kubernetes, config: GkeTargetConfig, uid: str) -> str:
    """Returns what its last pod said, as far as that can be had."""
    try:
        pods = sorted(
            cluster.list(POD, labels={JOBSET_UID: uid}).items, key=lambda pod: created_at(pod) or 0.0
        )
        return cluster.log(name_of(pods[-1]), container=config.container_name) if pods else ""
    except KubernetesError:
        return ""


def _failure(subject: Subject, found: Found, said: str) -> DoesNotWork:
    last = " / ".join(line.strip() for line in said.splitlines()[-5:] if line.strip())
    told = smoke_failures(said) or last or found.message or found.reason
    fix = (
        "; it has no runtime of slicebench: build one with slicebench image build"
        if _NO_RUNTIME.search(said)
        else ""
    )
    return DoesNotWork(f"{subject.image} does not work on this cluster: {told}{fix}")
