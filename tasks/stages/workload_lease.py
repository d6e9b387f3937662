"""The lease of a workload that somebody submits by hand: how long it may stay, and what an earlier one left.

Its deadline is the cluster's to keep. The lease is for when that fails, for what is made only in part, and for
`slicebench leases` to say what there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, InfrastructureError, Leaked
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_kinds import JOB_SET, Object
from tasks.cloud.kubernetes_places import place_of, place_of_cluster, signed
from tasks.cloud.labels import read_labels
from tasks.config import duration
from tasks.leases.lease import HELD, Lease, State
from tasks.leases.ledger import Ledger, latest
from tasks.leases.resource import JOBSET, ResourceRef
from tasks.leases.submitting import Intent, lease_name
from tasks.targets.kube_submission import Submission

if TYPE_CHECKING:
    from tasks.cloud.kubernetes_gke import GkeName
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.leases.inventory import Inventories
    from tasks.leases.patience import Patience

DEADLINE_S = 24 * 3600
"""Of a workload of which nobody said how long it may run."""

_TEARDOWN_S = 300.0


def intent(
    kube: Kubernetes, config: GkeTargetConfig, gke: GkeName | None, asked: Submission, now: float
) -> Intent:
    """Returns what is to be written down before the JobSet is made."""
    if gke is not None:
        place = place_of_cluster(gke.project, gke.location, gke.cluster)
    else:
        place = place_of(config.context or "", config.kubeconfig)
    scope = signed(f"{place}/{config.namespace}", kube.access)
    deadline_s = asked.deadline_s or config.limits.workload_s
    told = f"its cluster ends it {duration.in_words(deadline_s)} after it began" if deadline_s else "none"
    ref = ResourceRef(JOBSET, scope, asked.name, dead_man=told)
    return Intent(name_for(kube, config.namespace, asked.name), ref, expiry(config, deadline_s, now))


def name_for(kube: Kubernetes, namespace: str, workload: str) -> str:
    """Returns the name of the lease that a workload of this name would have, or has."""
    return lease_name(workload, f"{kube.access.identity or kube.access.server}/{namespace}")


def expiry(config: GkeTargetConfig, deadline_s: int | None, now: float) -> float | None:
    """Returns when the hardware must be back, if all goes its slowest way: its turn, its deadline, its pods' grace."""
    turn_s = config.limits.queue_s if config.queue else 0
    if deadline_s is None or turn_s is None:
        return None
    return now + turn_s + deadline_s + config.limits.termination_grace_s + _TEARDOWN_S


def clear(
    ledger: Ledger, kube: Kubernetes, wanted: Intent, say: Callable[[str], None], wait: Callable[[], None]
) -> None:
    """Sees to it that no earlier lease of the name stands in the way.

    What a call made that was killed half way is given back first, and so is the lease of a workload that is gone;
    `wait` waits for its pods. Raises BadInput for one that goes on or is being made, Leaked.
    """
    last = latest(ledger, wanted.name)
    if last is None or last.state is State.GONE:
        return
    if last.owner is None and last.state in HELD:
        if stands(kube, last):
            raise taken(kube, wanted.ref.name)
        wait()
    else:
        say(f"an earlier call made {wanted.ref.name} and did not end: what it made is given back first")
    give_back(ledger, wanted.name)


def give_back(ledger: Ledger, name: str, patience: Patience | None = None) -> None:
    """Deletes what is left under the lease of this name, and looks that it is gone: by whoever does that already.

    Raises BadInput while somebody is making it, Leaked, InfrastructureError.
    """
    from tasks.leases.giving_up import GoingAlready, give_up
    from tasks.leases.patience import USUAL

    patience = patience or USUAL
    until = time.monotonic() + min(patience.deadline_s, patience.at_most_s)
    while True:
        try:
            found = give_up(ledger, inventories_of(ledger), name, patience=patience)
            break
        except GoingAlready:
            if time.monotonic() >= until:
                raise
            time.sleep(patience.look_every_s)
    if found.did == "leaked":
        raise Leaked(f"{name}: {found.why}. The reaper keeps trying; see `slicebench leases`")
    if found.did not in ("released", "kept"):
        raise InfrastructureError(f"lease {name} is not given back ({found.did}): {found.why}")


def close(ledger: Ledger, jobset: Object, patience: Patience | None = None) -> None:
    """Closes the lease of a workload that was deleted, if this ledger has it. Raises Leaked, InfrastructureError."""
    labelled = read_labels(jobset["metadata"].get("labels") or {})
    if labelled is None or not ledger.exists() or labelled.ledger_id != ledger.id:
        return
    lease = ledger.read(labelled.lease_id)
    if lease is not None and lease.state is not State.GONE:
        give_back(ledger, lease.lease_id, patience)


def left_behind(ledger: Ledger, kube: Kubernetes, namespace: str, workload: str) -> Lease | None:
    """Returns the lease of a workload of this name whose JobSet is gone already, and which nobody closed."""
    lease = latest(ledger, name_for(kube, namespace, workload)) if ledger.exists() else None
    if lease is None or lease.state is State.GONE or kube.find(JOB_SET, workload, namespace) is not None:
        return None
    return lease


def taken(kube: Kubernetes, workload: str) -> BadInput:
    """Returns the error that there is one of the name."""
    return BadInput(
        f"there is a workload {workload} in namespace {kube.access.namespace} of {kube.access.name}",
        fix=f"choose another name, or slicebench workload delete {workload}",
    )


def stands(kube: Kubernetes, lease: Lease) -> bool:
    """Whether the JobSet of a lease is there, ended or not, and not on its way out. Raises KubernetesError."""
    for ref in lease.resources:
        there = kube.find(JOB_SET, ref.name)
        if there is not None and there["metadata"]["uid"] == ref.uid:
            return not there["metadata"].get("deletionTimestamp")
    return False


def inventories_of(ledger: Ledger) -> Inventories:
    """Returns what looks at JobSets, and at nothing else."""
    from tasks.leases.jobsets import JobSetInventory

    return {JOBSET: JobSetInventory(ledger)}
