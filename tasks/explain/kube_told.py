"""Troubles on Kubernetes that stand in what was recorded of a run, in the words of the cluster or of following it."""

from __future__ import annotations

import re
from dataclasses import replace

from tasks.explain.kube_evicted import EVICTIONS
from tasks.explain.kube_scene import KubeScene
from tasks.explain.scene import Scene, Trouble
from tasks.explain.told import MOST_EVIDENCE, told
from tasks.targets.kube_found import ADMISSION_CHECK

_WEBHOOK = (
    r"failed calling webhook|failed to call webhook|no endpoints available for service \"?(kueue|jobset)"
)

NO_NAME = (
    r"Name or service not known|Temporary failure in name resolution|Name does not resolve|getaddrinfo"
    r"|DNS resolution failed|no such host|[Cc]ould ?n[o']t resolve"
)
"""How programs say that a name is of nobody, or that nobody could be asked."""

_EVICTED = "|".join(reason for reason in EVICTIONS if reason != ADMISSION_CHECK)
"""A check of its admission is a reason to wait as well: alone it tells of no eviction."""


_RUNS = re.compile(r"^(\d{4}-\S+ )?running: ").match
"""How it is told that all pods run."""


def _since_it_ran(scene: Scene) -> Scene:
    """Returns the scene without what each file says from before all pods ran: what they waited for then has come."""
    ran = {line.place.file: at for at, line in enumerate(scene.lines) if _RUNS(line.text)}
    return replace(
        scene, lines=[line for at, line in enumerate(scene.lines) if at > ran.get(line.place.file, -1)]
    )


def webhook_down(scene: Scene) -> Trouble | None:
    """The API server asks Kueue or JobSet about each JobSet, and takes none while they do not answer."""
    return told(
        scene,
        "webhook_down",
        _WEBHOOK,
        "Kueue or JobSet does not answer, and without them the cluster takes no JobSet; nothing was made",
        (
            "slicebench doctor --target TARGET   # whether both run and answer",
            "slicebench cluster describe CLUSTER",
        ),
        unknown="whether it only starts: after an installation it takes up to half a minute",
    )


def webhook_of_scene(scene: KubeScene) -> Trouble | None:
    """The same, in what workers or events of a JobSet say."""
    return webhook_down(Scene(scene.workload, scene.workload, scene.found.over, scene.lines))


def waits_in_queue(scene: Scene) -> Trouble | None:
    """It waits for quota in a queue of Kueue."""
    return told(
        _since_it_ran(scene),
        "waits_for_quota",
        r"insufficient unused quota for|Pending the preemption of \d+ workload",
        "it waits for quota that others hold; it starts by itself when that is free",
        ("slicebench workload list --status RUNNING   # who holds it",),
    )


def never_fits(scene: Scene) -> Trouble | None:
    """It asks for more than its queue can ever have."""
    return told(
        _since_it_ran(scene),
        "never_fits",
        r"^(?!.*insufficient unused quota).*insufficient quota for .{1,200}> maximum capacity",
        "it never fits: it asks for more than its queue has even when nothing else runs",
        ("slicebench cluster resize CLUSTER --slices N   # or fewer slices in the target",),
    )


def queue_missing(scene: Scene) -> Trouble | None:
    """Its queue does not exist, or is stopped."""
    return told(
        _since_it_ran(scene),
        "queue",
        r"(Local|Cluster)Queue \S+ (doesn't exist|is inactive|is stopped)",
        "its queue is missing or stopped",
        ("slicebench cluster create CLUSTER   # repairs queues of a cluster that it made",),
    )


def wrong_hardware(scene: Scene) -> Trouble | None:
    """No hardware of the cluster is what the pods ask for."""
    return told(
        _since_it_ran(scene),
        "wrong_hardware",
        r"^(?!.*(insufficient |didn't match pod anti-affinity)).*(doesn't match node affinity"
        r"|didn't match Pod's node affinity|untolerated taint|unavailable in ClusterQueue)",
        "the cluster has no hardware of the kind that it asks for: type, topology or a taint does not match",
        ("slicebench cluster describe CLUSTER",),
    )


def image_pull(scene: Scene) -> Trouble | None:
    """Nodes do not get the image."""
    return told(
        _since_it_ran(scene),
        "image_pull",
        r"\b(ErrImagePull|ImagePullBackOff|InvalidImageName)\b|failed to pull and unpack image",
        "the image cannot be pulled",
        ("slicebench image build …   # prints the repository@sha256:… to put into image:",),
    )


def preempted(scene: Scene) -> Trouble | None:
    """Kueue gave its place to another, or its node was taken away."""
    return told(
        scene,
        "preempted",
        r"(?-i:\bPREEMPTED: )|Preempted to accommodate a workload|was taken away \((TerminationByKubelet|PreemptionBy"
        r"Scheduler|DeletionByTaintManager|EvictionByEvictionAPI)\)",
        "it was preempted: its place or its hardware was taken away",
        ("slicebench workload list --status RUNNING",),
    )


def deleted(scene: Scene) -> Trouble | None:
    """Somebody deleted its JobSet, or one of its pods."""
    return told(
        scene,
        "deleted",
        r"its JobSet was deleted before it ended|its JobSet is gone: somebody deleted it|was deleted while it ran",
        "somebody deleted it, or one of its pods, while it ran",
        (f"slicebench run --resume {scene.run}   # measures what is missing",),
        unknown="who: the cluster's audit log says it",
    )


def time_limit(scene: Scene) -> Trouble | None:
    """The cluster ended it, which took longer than its target lets it."""
    return told(
        scene,
        "time_limit",
        r"took longer than the \d+ s of limits\.workload_s",
        "it took longer than its target's limits: workload_s, and the cluster ended it",
        (
            "slicebench run … --target TARGET   # with a longer limits: workload_s in it",
            f"slicebench logs {scene.run}   # how far it came",
        ),
    )


def bad_pod_template(scene: Scene) -> Trouble | None:
    """JobSet's Jobs are refused."""
    return told(
        scene,
        "bad_pod_template",
        r"\bJobCreationFailed\b(?!.*already exists)",
        "its Jobs are refused: something in the pod template is wrong",
        ("slicebench plan SUITE --target TARGET   # checks the template beforehand",),
    )


def crash(scene: Scene) -> Trouble | None:
    """A pod's program ended with an error."""
    return told(
        scene,
        "program_failed",
        r"(?-i:\bFAILED): .{0,80}pod \S+: container \S+ exited with [1-9]",
        "the program exited with an error in the pod that is named",
        (f"slicebench logs {scene.run}",),
    )


def no_workload(scene: Scene) -> Trouble | None:
    """Kueue never made a Workload of it, for as long as its turn was waited for."""
    if scene.trouble != "unqueued":
        return None
    return Trouble(
        "no_workload",
        "Kueue never queued it: its priority class is unknown, or Kueue is down or leaves its namespace alone",
        [line for line in scene.lines if line.said][:MOST_EVIDENCE],
        (
            "slicebench doctor --target TARGET   # whether its classes are there, and Kueue answers",
            "slicebench cluster describe CLUSTER",
        ),
        unknown="which of them: it only stands in the log of kueue-controller-manager",
    )


def no_node(scene: Scene) -> Trouble | None:
    """There are nodes of the kind, and none of them has room."""
    return told(
        scene,
        "waits_for_capacity",
        r"\d+ nodes are available: .*(Insufficient |didn't match pod anti-affinity)",
        "no node has room for its pods: those of the kind are full, or there are fewer node pools than slices",
        ("slicebench cluster describe CLUSTER", "slicebench workload list --status RUNNING"),
    )


def evicted(scene: Scene) -> Trouble | None:
    """Kueue took its quota back, though nobody of a higher priority wanted it."""
    return told(
        scene,
        "evicted",
        rf"\b({_EVICTED})\b",
        "Kueue took its quota back: pods that were not ready in time, a node that failed, or a queue that was stopped",
        ("slicebench cluster describe CLUSTER", "slicebench workload list"),
    )


def container(scene: Scene) -> Trouble | None:
    """What a container needs to be made is missing."""
    return told(
        _since_it_ran(scene),
        "container",
        r"\b(CreateContainerConfigError|CreateContainerError|RunContainerError)\b",
        "a container cannot be made: a Secret, a volume or a command that its pod names is missing or wrong",
        ("slicebench workload inspect NAME", "slicebench plan SUITE --target TARGET"),
    )


def names_do_not_resolve(scene: Scene) -> Trouble | None:
    """Workers do not find each other by the names that JobSet gives them."""
    return told(
        scene,
        "dns",
        rf"-\d+-\d+\.\S+.{{0,120}}({NO_NAME})|({NO_NAME}).{{0,120}}-\d+-\d+\.\S+",
        "workers do not find each other by name: the cluster's DNS does not answer, or knows no service of the JobSet",
        ("slicebench workload inspect NAME   # services and kube-dns", "slicebench cluster describe CLUSTER"),
    )
