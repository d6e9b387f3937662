"""Puts JobSet, Kueue and a queue into a cluster, and keeps them right: what is so already is left, and said to be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.kube_manifests import Manifests, Wanted, fetch
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_errors import NotServed, Refused, Unavailable, shortened
from tasks.cloud.kubernetes_kinds import (
    ALL_NAMESPACES,
    CLUSTER_QUEUE,
    DEPLOYMENT,
    JOB_SET,
    NODE,
    POD,
    RESOURCE_FLAVOR,
    Kind,
    Object,
    selector,
)
from tasks.cloud.kubernetes_labels import QUEUE_NAME
from tasks.cloud.timing import Timing
from tasks.config import size
from tasks.config.cluster import ClusterConfig
from tasks.config.home import manifests_folder
from tasks.config.queueing import JobSetController, KueueController, Queueing
from tasks.targets.kube_controllers import (
    JOBSET,
    KUEUE,
    NAMED,
    Choice,
    Part,
    choose,
    fits,
    fitted,
    in_order,
    is_deployment,
    is_manager,
    marked,
    tolerations_for,
)
from tasks.targets.kube_objects import condition, metadata, name, spec, status
from tasks.targets.kube_pods import unschedulable, waits
from tasks.targets.kube_queue_up import apply, queue_up
from tasks.targets.kube_queues import LOCAL_QUEUE_NAME, MANAGED, Flavor, flavors
from tasks.targets.kube_room import Held, room_of
from tasks.targets.kube_teams import Teams
from tasks.targets.kube_unseen import room_with

Say = Callable[[str], None]


@dataclass(frozen=True)
class Waits:
    """Seconds: how long a controller may take to be ready, and its webhook to answer after that; between two looks."""

    ready_s: float = 600.0
    answers_s: float = 180.0
    look_s: float = 2.0


USUAL = Waits()
_ONE_TRY = Timing(try_s=15.0, total_s=0.0)


class NotReady(InfrastructureError):
    """A controller does not come up, or its webhook does not answer."""


def fetched(
    wanted: Queueing, known: Path | None = None, timing: Timing | None = None
) -> Mapping[str, Manifests]:
    """Returns the manifests that a cluster would get, by controller; none where nothing is installed.

    Before anything is made, so that what cannot be had or has another hash stops it. Raises as `fetch`.
    """
    if not wanted.install:
        return {}
    folder = known or manifests_folder()
    return {
        part.name: _whole(part, fetch(_release(part, one), folder, timing)) for part, one in _parts(wanted)
    }


def set_up(
    api: Kubernetes,
    held: Sequence[Held],
    config: ClusterConfig,
    say: Say,
    *,
    patience: Waits = USUAL,
    releases: Mapping[str, Manifests] | None = None,
    teams: Teams | None = None,
) -> None:
    """Lets a cluster have JobSet, Kueue, and the queue for its machines, in the namespace that `api` is opened for.

    Called again it repairs what is missing, and gives the queue the quota of the machines that there are by then.
    `releases` are those that were fetched before. Raises BadInput, KubernetesError, NotReady.
    """
    if not config.queueing.install:
        return
    controllers(api, held, config, say, patience=patience, releases=releases)
    queue_up(api, flavors_of(api, held, config), say, teams)


def flavors_of(api: Kubernetes, held: Sequence[Held], config: ClusterConfig) -> list[Flavor]:
    """Returns the flavors of a cluster's machines, as its nodes are now: Kueue must be there."""
    limit = config.queueing.memory_limit
    limits = config.queueing.cpu_limit, size.in_bytes(limit) if limit else None
    room = room_of(api.list(NODE).items)
    if any(one.shape.machine_type not in room for one in held):
        room = room_with(room, held, api.list(CLUSTER_QUEUE, labels=MANAGED).items, *limits)
    return flavors(held, room, *limits)


def controllers(
    api: Kubernetes,
    held: Sequence[Held],
    config: ClusterConfig,
    say: Say,
    *,
    patience: Waits = USUAL,
    releases: Mapping[str, Manifests] | None = None,
) -> None:
    """Lets a cluster have JobSet and Kueue, and waits until both answer. Otherwise as `set_up`."""
    releases = releases or fetched(config.queueing)
    nodes = api.list(NODE).items
    machines = sum(one.machines for one in held if not one.common)
    for part in _first_who_must_agree(api):
        install(api, part, releases[part.name], machines, nodes, say, patience)
    probe(api, say, patience)


def controllers_unlike(api: Kubernetes, held: Sequence[Held], config: ClusterConfig) -> Iterator[str]:
    """Yields what `controllers` would do in a cluster, a line each: as far as that is known without the releases."""
    machines = sum(one.machines for one in held if not one.common)
    for part, wanted in _parts(config.queueing):
        there = _running(api, part) if api.serves(part.kind) else None
        if there is None:
            yield f"put {part.title} {wanted.version} in"
            continue
        version, hashed = marked(there)
        chosen = choose(part, there, wanted.version, wanted.sha256 or hashed)
        if chosen.do == "upgrade":
            yield f"take {part.title} from {version} to {wanted.version}"
        elif chosen.do == "fit" and not fits(part, there, machines):
            yield f"give {part.title} the size for {machines} machines"


def _first_who_must_agree(api: Kubernetes) -> Sequence[Part]:
    """Returns the controllers in the order in which they are looked after.

    Where Kueue is there, every Deployment and pod waits for its word, those of JobSet too: while it is down, only it
    itself can be brought up.
    """
    return (JOBSET, KUEUE) if _running(api, KUEUE) is None else (KUEUE, JOBSET)


def _running(api: Kubernetes, part: Part) -> Object | None:
    """Returns the Deployment of a controller, wherever it is: two controllers of one kind would work against each
    other, and JobSet's chart names it otherwise than JobSet's manifests.
    """
    there = api.find(DEPLOYMENT, part.deployment, part.namespace)
    if there is not None:
        return there
    found = api.list(DEPLOYMENT, ALL_NAMESPACES, labels={NAMED: part.name}).items
    return next((one for one in found if is_manager(one)), None)


def install(
    api: Kubernetes,
    part: Part,
    release: Manifests,
    machines: int,
    nodes: Sequence[Object],
    say: Say,
    patience: Waits = USUAL,
) -> None:
    """Lets a cluster have one controller, fit for its machines, and waits until it is ready."""
    there = _running(api, part)
    chosen = choose(part, there, release.wanted.version, release.sha256)
    if chosen.told:
        say(chosen.told)
    if chosen.do == "fit" and there is not None and fits(part, there, machines):
        chosen = Choice("keep")
    if chosen.do != "keep":
        if release.seen_first:
            say(
                f"the manifests of {part.title} {release.wanted.version} were seen for the first time: from now "
                f"on they must have the SHA-256 {release.sha256}"
            )
        mark = f"{release.wanted.version} {release.sha256}"
        tolerations = tolerations_for(nodes)
        kinds: dict[tuple[str, str], Kind] = {}
        for manifest in in_order(part, release.objects):
            if is_deployment(part, manifest):
                apply(api, fitted(part, manifest, machines, tolerations, mark), DEPLOYMENT, say)
            elif chosen.do != "fit":
                key = str(manifest["apiVersion"]), str(manifest["kind"])
                kinds[key] = kinds.get(key) or api.kind_of(manifest)
                apply(api, manifest, kinds[key], say)
    await_ready(api, part if there is None else part.as_(there), patience)


def await_ready(api: Kubernetes, part: Part, patience: Waits = USUAL) -> None:
    """Waits until a controller is available as it was applied last. Raises NotReady with what its pods say."""
    deadline = time.monotonic() + patience.ready_s
    while True:
        there = api.find(DEPLOYMENT, part.deployment, part.namespace)
        if there is not None and _available(there):
            return
        if time.monotonic() >= deadline:
            raise NotReady(
                f"{part.title} is not ready after {patience.ready_s:.0f} s: {_why_not(api, part, there)}; "
                "once it is, do the same again"
            )
        time.sleep(patience.look_s)


def probe(api: Kubernetes, say: Say, patience: Waits = USUAL) -> None:
    """Waits until both webhooks answer, by trying to make what they look at. Raises NotReady with what they say."""
    once = Kubernetes(api.access, timing=_ONE_TRY)
    deadline = time.monotonic() + patience.answers_s
    told = ""
    for kind, manifest in _trials():
        while True:
            try:
                once.try_create(kind, manifest)
                break
            except (Unavailable, NotServed) as error:
                if time.monotonic() >= deadline:
                    raise NotReady(
                        f"the webhooks do not answer after {patience.answers_s:.0f} s: {error}"
                    ) from error
                if str(error) != told:
                    told = str(error)
                    say(f"waiting for the webhooks: {shortened(told)}")
                time.sleep(patience.look_s)
            except Refused as error:  # it answers: what it says about a trial is of no matter, but of use
                say(f"the trial of the webhooks was refused: {shortened(str(error))}")
                break


def _whole(part: Part, release: Manifests) -> Manifests:
    if any(is_deployment(part, one) for one in release.objects):
        return release
    raise BadInput(
        f"{release.wanted.address} holds no Deployment {part.deployment}: is it a release of {part.title}?"
    )


def _parts(wanted: Queueing) -> Sequence[tuple[Part, JobSetController | KueueController]]:
    return (JOBSET, wanted.jobset), (KUEUE, wanted.kueue)


def _release(part: Part, one: JobSetController | KueueController) -> Wanted:
    return Wanted(part.name, one.version, one.address, one.sha256)


def _available(deployment: Object) -> bool:
    """Whether a Deployment is as it was asked for last: every replica of it new, and none of the old left in front."""
    said = status(deployment)
    if said.get("observedGeneration") != metadata(deployment).get("generation"):
        return False
    wanted = spec(deployment).get("replicas", 1)
    ready = condition(deployment, "Available")
    return ready is not None and ready.true and said.get("updatedReplicas", 0) >= wanted


def _why_not(api: Kubernetes, part: Part, deployment: Object | None) -> str:
    """Returns why a controller is not up: what stops its pods, else what its Deployment says."""
    if deployment is None:
        return f"there is no Deployment {part.deployment} in namespace {part.namespace}"
    labels = (spec(deployment).get("selector") or {}).get("matchLabels") or {}
    for pod in api.list(POD, part.namespace, labels=selector(labels)).items:
        if reason := _stuck(pod):
            return f"pod {name(pod)}: {reason}"
    for type_ in ("ReplicaFailure", "Progressing", "Available"):
        found = condition(deployment, type_)
        if found is not None and found.true is (type_ == "ReplicaFailure") and found.message:
            return f"{found.reason}: {shortened(found.message)}"
    return "its Deployment does not say why"


def _stuck(pod: Object) -> str:
    """Returns why a pod does not run; empty where it does, or nothing is known."""
    for one in waits(pod):
        if one.reason not in ("", "ContainerCreating", "PodInitializing"):
            return shortened(f"{one.reason}: {one.message}".rstrip(": "))
    homeless = unschedulable(pod)
    return shortened(f"{homeless.reason}: {homeless.message}") if homeless is not None else ""


def _trials() -> Sequence[tuple[Kind, Object]]:
    """Returns what both webhooks have a look at: Kueue's own kind, and a JobSet that waits in a queue."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "trial", "image": "trial"}]}
    job = {"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": {"spec": pod}}}
    trial = {
        "metadata": {"name": "slicebench-trial", "labels": {QUEUE_NAME: LOCAL_QUEUE_NAME}},
        "spec": {"suspend": True, "replicatedJobs": [{"name": "trial", "replicas": 1, "template": job}]},
    }
    return (RESOURCE_FLAVOR, {"metadata": {"name": "slicebench-trial"}, "spec": {}}), (JOB_SET, trial)
