"""A workload that somebody submits by hand: checked, and made once whatever becomes of replies.

What is made is the JobSet, and a Secret that it owns; both are of a lease that is written down before. Once they stand
it needs nobody: it goes by itself, with its program's end, at its deadline, and as an object after its time to live.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, Leaked, Problem
from runtime.contract.sidecar import way_around
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import (
    AlreadyExists,
    Going,
    KubernetesError,
    NotFound,
    NotServed,
    Refused,
)
from tasks.cloud.kubernetes_kinds import JOB_SET, SECRET, Object
from tasks.cloud.labels import labels_by_hand
from tasks.config.sidecar_in_pods import FOR_NOBODY_ELSE, exposed
from tasks.leases.lease import State
from tasks.leases.ledger import Conflict, Ledger
from tasks.leases.submitting import Intent, Submitting, begin
from tasks.stages import workload_lease
from tasks.stages.workload_earlier import await_earlier
from tasks.stages.workload_lease import taken
from tasks.targets.gke_fits import never
from tasks.targets.gke_preflight import foundations, named, refused
from tasks.targets.kube_check import checked
from tasks.targets.kube_jobset import groups, jobset, secret
from tasks.targets.kube_names import longest_name
from tasks.targets.kube_submission import Submission
from tasks.targets.kube_version import native_sidecars, too_old

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

Say = Callable[[str], None]

_GIVING_BACK_S = 60.0
"""How long it is tried to delete what was made in part, before that is left to the reaper."""


@dataclass(frozen=True)
class Wanted:
    """What is to run. `image` is by digest, or whatever the registry is trusted with; `secrets` go into a Secret.

    `deadline_s`: see Submission.
    """

    name: str
    image: str
    command: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    deadline_s: int | None = None


@dataclass(frozen=True)
class Submitted:
    """What was made."""

    name: str
    uid: str
    lease_id: str = ""
    expires_at: float | None = None


def generated_name(config: GkeTargetConfig, user: str) -> str:
    """Returns a name that nobody chose: whose it is, and a word that makes it another one each time."""
    word = os.urandom(3).hex()
    legal = "".join(char if char.isascii() and char.isalnum() else "-" for char in user.lower())
    start = legal.lstrip("-0123456789")[: longest_name(groups(config)) - len(word) - 1].strip("-")
    return f"{start or 'workload'}-{word}"


def submission_of(wanted: Wanted, config: GkeTargetConfig) -> Submission:
    """Returns what is submitted, with a word of its own by which it is known again when a reply is lost.

    Raises BadInput for key files that cannot be used, and for a program that would go around its sidecar.
    """
    stands = None
    if config.encryption is not None or config.sidecar is not None:
        from tasks.targets.beside import beside

        stands = beside(config, elsewhere=True)
        if stands is not None and stands.guards and (why := way_around({**config.env, **wanted.env})):
            raise BadInput(f"the program would go around {stands.name}: {why}", fix="leave it out")
    return Submission(
        name=wanted.name,
        image=wanted.image,
        command=wanted.command,
        env={name: value for name, value in wanted.env.items() if name not in wanted.secrets},
        secrets=wanted.secrets,
        labels=labels_by_hand(os.urandom(8).hex(), wanted.owner),
        deadline_s=wanted.deadline_s,
        sidecar=stands,
    )


def check_offline(config: GkeTargetConfig, asked: Submission) -> None:
    """Raises BadInput with all that is wrong before any cluster is asked: names and their limits, the pods."""
    if wrong := checked(jobset(config, asked)):
        raise BadInput(wrong)


def check(
    kube: Kubernetes, config: GkeTargetConfig, asked: Submission, say: Say, grows: bool | None = None
) -> None:
    """Raises BadInput with what the cluster lacks or refuses, having waited for an earlier one of the name to end.

    `grows`: whether GKE adds such machines by itself; None: the cluster is asked.

    Nothing is made: a Job of each kind in the JobSet is tried on the server only, for JobSet does not look at its pods.
    """
    whole = jobset(config, asked)
    if any(native_sidecars(whole)) and (old := too_old(kube.version(), whole, kube.access.name)) is not None:
        raise BadInput(old)
    if why := exposed(config):
        say(str(Problem("warning", None, why, fix=FOR_NOBODY_ELSE)))
    queue: list[Object] = []
    found = list(named(kube, config, queue.append))
    if problems := [one for one in found if one.severity == "error"]:
        raise BadInput([*foundations(kube, config), *problems])
    for one in found:
        say(str(one))
    await_earlier(kube, asked.name, say, secret=asked.secret_name if asked.kept else "")
    try:
        problems = [one for one in refused(kube, config, asked, jobs_only=True) if one.severity == "error"]
        fits = list(never(kube, config, whole, grows, local=queue[0] if queue else None))
    except (NotServed, NotFound) as error:
        raise BadInput(list(foundations(kube, config)) or str(error)) from None
    if problems := [*problems, *(one for one in fits if one.severity == "error")]:
        raise BadInput(problems)
    for one in fits:
        say(str(one))


def clear(kube: Kubernetes, ledger: Ledger, wanted: Intent, say: Say) -> None:
    """Gives back what an earlier call for the same name left half made. Raises BadInput when that one goes on."""
    name = wanted.ref.name
    workload_lease.clear(ledger, kube, wanted, say, lambda: await_earlier(kube, name, say))


def submit(
    kube: Kubernetes, config: GkeTargetConfig, asked: Submission, ledger: Ledger, wanted: Intent
) -> Submitted:
    """Writes the lease down, makes the JobSet, then the Secret that it owns and its pods wait for; both or none.

    A reply that is lost is looked up, so nothing is made twice. Raises BadInput where the name was taken meanwhile.
    """
    try:
        held = begin(ledger, wanted)
    except Conflict as error:  # two of one name: nothing failed, and the other one has it
        raise BadInput(
            f"{asked.name} is being submitted by another call",
            fix="choose another name, or wait for that one",
        ) from error
    asked = replace(asked, labels={**asked.labels, **held.labels})
    uid = None
    try:
        uid = _jobset(kube, config, asked)
        kept = secret(config, asked, uid)
        if kept is not None:
            kube.create(SECRET, kept)
        held.stands(uid)
    except BaseException as error:
        if _nothing_was_made(error):
            held.nothing_was_made()
            raise
        _give_back(held, uid, f"it could not be made whole: {error}")
        raise
    return Submitted(asked.name, uid, held.lease.lease_id, held.lease.expires_at)


def _jobset(kube: Kubernetes, config: GkeTargetConfig, asked: Submission) -> str:
    """Makes the JobSet; returns its uid. Raises BadInput where the cluster makes none."""
    try:
        made = kube.create(JOB_SET, jobset(config, asked))
    except Going:
        raise
    except AlreadyExists as error:
        raise taken(kube, asked.name) from error
    except Refused as error:
        raise BadInput(f"{kube.access.name} refuses the workload: {error}") from error
    except (NotServed, NotFound) as error:
        raise BadInput(list(foundations(kube, config)) or str(error)) from error
    return str(made["metadata"]["uid"])


def _nothing_was_made(error: BaseException) -> bool:
    """Whether it is the cluster's own word that there is nothing, and there will not be of a call before either."""
    why = error.__cause__
    return isinstance(error, BadInput) and isinstance(why, KubernetesError) and not why.in_doubt


def _give_back(held: Submitting, uid: str | None, why: str) -> None:
    """Deletes what was made, and looks that it is gone. Raises Leaked when that cannot be said."""
    from tasks.leases.owner import this_process
    from tasks.leases.patience import USUAL
    from tasks.leases.release import release, sweep

    made, patience = held.as_made(uid), USUAL.within(_GIVING_BACK_S)
    inventories = workload_lease.inventories_of(held.ledger)
    swept = sweep(inventories, made, patience)  # whoever took the lease meanwhile may be through with it
    stored = held.ledger.read(made.lease_id)
    if stored is not None and stored.state is not State.GONE:
        last = made if stored.generation == made.generation else stored
        swept = release(held.ledger, last, inventories, this_process(), why, patience=patience)
    if not swept.proven:
        left = "; ".join(swept.problems) or "it is still there"
        raise Leaked(f"{held.lease.name}: {left}. The reaper keeps trying; see `slicebench leases`")
