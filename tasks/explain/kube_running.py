"""Troubles of a workload's pods: nodes, images, containers, memory, the network, the program itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tasks.cloud.kubernetes_going import why_still
from tasks.cloud.kubernetes_labels import EXCLUSIVE, HOST
from tasks.explain.kube_scene import KubeScene, events, line, of_cause, of_condition, of_event, trouble
from tasks.explain.kube_told import NO_NAME
from tasks.explain.scene import Line, Scene, Trouble
from tasks.explain.told import told
from tasks.explain.workload import init_hang as no_complete_group
from tasks.targets.kube_found import DELETED, KubeState
from tasks.targets.kube_objects import Object, metadata, name, said, spec
from tasks.targets.kube_pods import Waiting, current, unschedulable, waits
from tasks.targets.kube_standing import standing

_NOT_THERE = r"not found|manifest unknown|does not exist"
_NOT_LET_IN = r"denied|unauthorized|forbidden|\b40[13]\b|no basic auth"
_NO_CHIPS = r"\bInsufficient "
_NO_SUCH_NODE = r"didn't match Pod's node (affinity/selector|affinity)|untolerated taint|didn't tolerate"
_NOT_BESIDE = r"didn't match pod anti-affinity rules"

_NOBODY_LOOKED = "which pod failed: they are gone, and nobody looked in time"


def image_pull(scene: KubeScene) -> Trouble | None:
    """An image cannot be pulled; nothing times out, and the quota stays taken."""
    waiting = _waiting(
        scene, "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"
    )
    if not waiting:
        return None
    text = " ".join(one.message for one in waiting)
    text += " ".join(said(event) for event in events(scene, "Failed", "Pod"))
    if re.search(_NOT_THERE, text, re.IGNORECASE):
        why = "it does not exist under that name"
    elif re.search(_NOT_LET_IN, text, re.IGNORECASE):
        why = "the nodes may not read it: their service account needs roles/artifactregistry.reader"
    elif re.search(r"no match for platform", text):
        why = "it is made for another kind of processor"
    else:
        why = "the registry did not give it"
    images = sorted({image for pod in _pods(scene) for image in _images(pod, waiting)})
    return trouble(
        "image_pull",
        f"the image {', '.join(images) or '?'} cannot be pulled: {why}. It holds its quota until it is deleted",
        _evidence(waiting),
        ("slicebench image build …   # prints the repository@sha256:… to put into image:", scene.delete),
        unknown=""
        if why != "the registry did not give it"
        else "why: the message above is all that the node says",
    )


def cannot_start(scene: KubeScene) -> Trouble | None:
    """A container cannot be made: a Secret, a ConfigMap or a volume that it names is missing."""
    waiting = _waiting(
        scene, "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError"
    )
    mounts = [*events(scene, "FailedMount", "Pod"), *events(scene, "FailedAttachVolume", "Pod")]
    starting = scene.found.state == KubeState.STARTING
    if not waiting and not (mounts and starting):
        return None
    return trouble(
        "container",
        "a container cannot be made: something that its pod names is missing or wrong",
        [*_evidence(waiting), *(of_event(event) for event in mounts)],
        (f"slicebench workload inspect {scene.workload}", scene.delete),
    )


def no_node(scene: KubeScene) -> Trouble | None:
    """No node takes a pod: there is none of the kind, or those that there are, are full."""
    homeless = [(pod, why) for pod in _pods(scene) if (why := unschedulable(pod)) is not None]
    if not homeless or scene.found.over:
        return None
    pod, why = homeless[0]
    growing, failed = _some(scene, "TriggeredScaleUp"), _some(scene, "FailedScaleUp")
    evidence = [of_condition(pod, why), *(of_event(one) for one in [*failed, *growing])]
    if failed:
        what = "the cluster does not grow for it: there is no capacity, or Google Cloud gives no more quota"
    elif growing:
        what = "its nodes are being made: the cluster grows for it"
    elif re.search(_NO_CHIPS, why.message):
        what = "nodes of the kind are there, and full: pods that end still hold their chips, or there are too few nodes"
    elif re.search(_NOT_BESIDE, why.message):
        return _too_few_pools(scene, pod, evidence)
    elif re.search(_NO_SUCH_NODE, why.message):
        grows_not = _some(scene, "NotTriggerScaleUp")
        return _wrong_node(scene, pod, [*evidence, *(of_event(one) for one in grows_not)])
    else:
        what = "no node takes its pods"
    commands = (scene.describe, f"slicebench workload explain {scene.workload}   # again, in a minute")
    return trouble("waits_for_capacity", what, evidence, commands)


def _too_few_pools(scene: KubeScene, pod: Object, evidence: list[Line]) -> Trouble:
    """Each slice is to have its nodes to itself, or each pod its node, and there are others on those of the kind."""
    key = (metadata(scene.objects.jobset).get("annotations") or {}).get(EXCLUSIVE)
    slices = f"each slice wants {key or 'a node label'} to itself"
    if HOST in json.dumps((spec(pod).get("affinity") or {}).get("podAntiAffinity")):
        what = f"each pod wants a host to itself{f', and {slices}' if key else ''}, and no host of the kind is free of "
        what += "others: there are fewer hosts than pods" + (
            ", or fewer node pools than slices" if key else ""
        )
    else:
        what = f"{slices}, and all nodes of the kind that are free are on those of other slices: "
        what += "there are fewer node pools than slices"
    return trouble(
        "waits_for_capacity",
        what,
        evidence,
        (
            f"{scene.resize}   # or exclusive_topology: null",
            scene.describe,
            scene.delete,
        ),
    )


def _wrong_node(scene: KubeScene, pod: Object, evidence: list[Line]) -> Trouble:
    selector = spec(pod).get("nodeSelector") or {}
    asked = ", ".join(f"{key}={value}" for key, value in sorted(selector.items())) or "nothing in particular"
    taint = re.search(r"untolerated taint\(?s?\)? ?(\{[^}]*\})", evidence[0].text)
    kept = f"; nodes keep it out by taint {taint.group(1)}" if taint else ""
    return trouble(
        "wrong_hardware",
        f"no node of the cluster is of the kind that it asks for{kept}. It holds its quota while it waits",
        [evidence[0], line(pod, f"asks for nodes with {asked}"), *evidence[1:]],
        (scene.describe, scene.delete),
    )


def crash_loop(scene: KubeScene) -> Trouble | None:
    """The program ends with an error each time that it is started."""
    beside = {one.container for pod in _pods(scene) for one in standing(pod)}
    waiting = [one for one in _waiting(scene, "CrashLoopBackOff") if one.container not in beside]
    causes = list(scene.found.causes.values())
    same = len({cause.exit_code for cause in causes}) == 1 and all(cause.kind == "exit" for cause in causes)
    if not waiting and not (len(causes) > 1 and same):
        return None
    times = f"{len(causes)} attempts in a row" if not waiting else "again and again"
    return trouble(
        "crash_loop",
        f"the program ends with an error {times}: to start it once more will not help",
        [*(of_cause(cause) for cause in causes[-2:]), *_evidence(waiting)],
        (scene.logs, scene.delete),
    )


def out_of_memory(scene: KubeScene) -> Trouble | None:
    """A container took more memory than it may, or its node ran short of it."""
    for cause in scene.found.causes.values():
        if cause.kind == "out_of_memory" or (cause.kind == "evicted" and "memory" in cause.message):
            limit = "its container's limit" if cause.kind == "out_of_memory" else "what its node has"
            return trouble(
                "out_of_memory",
                f"a worker took more memory than {limit}",
                [of_cause(cause)],
                ("slicebench plan SUITE --target TARGET   # what the largest checkpoint takes", scene.logs),
            )
    return None


def taken_away(scene: KubeScene) -> Trouble | None:
    """A node went away under a pod: preempted, drained, shut down or lost."""
    for cause in reversed(list(scene.found.causes.values())):
        if cause.kind in ("preempted", "evicted") and "memory" not in cause.message:
            return trouble(
                "preempted" if cause.kind == "preempted" else "node_trouble",
                "the hardware was taken away under a worker; the others failed with it",
                [of_cause(cause)],
                (scene.describe, f"slicebench workload list --filter-by-job ^{scene.workload}$"),
            )
    return None


def program_failed(scene: KubeScene) -> Trouble | None:
    """The program ended with an error; which of the workers did so first."""
    cause = scene.found.cause
    told_else = scene.found.reason == DELETED or scene.found.took_too_long
    if cause is None and scene.found.state == KubeState.FAILED and not told_else:
        told_by = scene.objects.jobset or scene.objects.workload
        evidence = [line(told_by, f"{scene.found.reason}: {scene.found.message}")]
        return trouble("failed", "it failed", evidence, (scene.logs,), _NOBODY_LOOKED)
    if cause is None or cause.kind not in ("exit", "job") or crash_loop(scene):
        return None
    where = f"--pod {cause.pod}" if cause.pod else ""
    what = f"exited with {cause.exit_code}" if cause.exit_code is not None else "failed"
    return trouble(
        "program_failed",
        f"{f'the program {what}' if cause.pod else 'a Job failed'}: first in {cause.pod or cause.job}",
        [of_cause(cause)],
        (f"{scene.logs} {where}".rstrip(),),
        unknown="" if cause.pod else _NOBODY_LOOKED,
    )


def deadline(scene: KubeScene) -> Trouble | None:
    """It ran longer than it may, by the clock of its Job or by Kueue's, which suspends it then."""
    if not scene.found.took_too_long:
        return None
    cause, told_by = scene.found.cause, scene.objects.workload or scene.objects.jobset
    by_job = cause is not None and cause.kind == "deadline"
    seen = of_cause(cause) if cause is not None and by_job else line(told_by, scene.found.message)
    return trouble("deadline", "it ran longer than its time limit", [seen], (scene.logs,))


def deleted(scene: KubeScene) -> Trouble | None:
    """Somebody deleted the JobSet, or one of its pods."""
    cause = scene.found.cause
    if scene.found.reason == DELETED:
        one = scene.objects.deleted or scene.objects.jobset
        evidence = [line(one, scene.found.message)]
        if scene.objects.jobset is not None and (why := why_still([scene.objects.jobset])):
            evidence.append(line(one, why))
        return trouble(
            "deleted", "somebody deleted it before it ended", evidence, ("slicebench workload list",)
        )
    if cause is None or cause.kind != "deleted":
        return None
    return trouble(
        "deleted", "somebody deleted one of its pods while it ran", [of_cause(cause)], (scene.logs,)
    )


def init_hang(scene: KubeScene) -> Trouble | None:
    """Workers wait in jax.distributed for one that does not come."""
    if scene.found.state != KubeState.RUNNING:
        return None
    found = no_complete_group(
        Scene(scene.workload, scene.workload, scene.found.over, scene.lines, scene.workers)
    )
    if found is None:
        return None
    commands = (f"{scene.logs} --worker N", f"slicebench workload inspect {scene.workload}")
    return trouble("init_hang", found.what, found.evidence, commands)


def names_do_not_resolve(scene: KubeScene) -> Trouble | None:
    """Workers do not find each other by name: DNS is down, or the service that names them was not made."""
    plain = Scene(scene.workload, scene.workload, scene.found.over, scene.lines)
    heard = told(plain, "dns", NO_NAME, "", ())
    service = events(scene, "HeadlessServiceCreationFailed")
    if heard is None and not service:
        return None
    return trouble(
        "dns",
        "workers do not find each other by name: the cluster's DNS does not answer, or knows no service of this JobSet",
        [*(of_event(event) for event in service), *(heard.evidence if heard else ())],
        (f"slicebench workload inspect {scene.workload}   # services and kube-dns", scene.describe),
    )


def _pods(scene: KubeScene) -> list[Object]:
    return current(scene.objects.pods, scene.objects.workload, scene.found.restarts)


def _waiting(scene: KubeScene, *reasons: str) -> list[Waiting]:
    return [one for pod in _pods(scene) for one in waits(pod) if one.reason in reasons]


def _evidence(waiting: list[Waiting]) -> Iterator[Line]:
    """Yields what containers wait for, each message once: a thousand pods may say the same."""
    seen = set()
    for one in waiting:
        if (text := f"container {one.container}: {one.reason}: {one.message}") not in seen:
            seen.add(text)
            yield line({"kind": "Pod", "metadata": {"name": one.pod}}, text)


def _images(pod: Object, waiting: list[Waiting]) -> Iterator[str]:
    stuck = {one.container for one in waiting if one.pod == name(pod)}
    for container in (*(spec(pod).get("initContainers") or ()), *(spec(pod).get("containers") or ())):
        if container.get("name") in stuck and container.get("image"):
            yield str(container["image"])


def _some(scene: KubeScene, reason: str) -> list[Object]:
    return events(scene, reason, "Pod")[:1]
