"""Troubles of a workload that waits: for quota, for its turn, for a queue, or for what never comes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tasks.cloud.kubernetes_labels import QUEUE_NAME
from tasks.explain.kube_queues import no_queue, refused
from tasks.explain.kube_scene import KubeScene, events, line, of_condition, of_event, trouble
from tasks.explain.scene import Line, Trouble
from tasks.targets.kube_found import ADMISSION_CHECK
from tasks.targets.kube_objects import (
    Condition,
    Object,
    condition,
    created_at,
    is_true,
    label,
    namespace,
    number,
    said,
    spec,
    uid_of,
)
from tasks.targets.kube_queue import admitted_by, position, priority_of
from tasks.targets.kube_queue import waits as waits_for_quota
from tasks.targets.kube_quota import Verdict, verdict

PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
_OF_AN_ENVIRONMENT = "of an environment: slicebench env up FILE --set tpu_pools=N"
NO_WORKLOAD_AFTER_S = 15.0
"""Kueue makes a Workload within two seconds of a JobSet on a busy machine; after this it will not."""

_BY_REASON: Mapping[str, Verdict] = {"ExceedsMaxQuota": "never", "NoMatchingFlavor": "no flavor"}
"""What Kueue's own reasons come to, where its words are not known: each version has others."""


def never_fits(scene: KubeScene) -> Trouble | None:
    """It asks for more than its queue has when nobody else uses it."""
    why = _judged(scene, "never")
    if why is None:
        return None
    return trouble(
        "never_fits",
        "it never fits: it asks for more than its queue has even when nothing else runs, and would wait for ever",
        [of_condition(scene.objects.workload, why)],
        (
            f"{scene.resize}   # {_OF_AN_ENVIRONMENT}; or fewer slices in the target",
            scene.describe,
            scene.delete,
        ),
    )


def no_flavor(scene: KubeScene) -> Trouble | None:
    """No hardware that the queue knows is what the pods ask for."""
    why = _judged(scene, "no flavor")
    if why is None:
        return None
    return trouble(
        "wrong_hardware",
        "the queue has no hardware of this kind: type, topology or a taint does not match any of its flavors",
        [of_condition(scene.objects.workload, why), *_selectors(scene)],
        (scene.describe, f"slicebench workload inspect {scene.workload}", scene.delete),
    )


def waits_for_turn(scene: KubeScene) -> Trouble | None:
    """Others hold the quota: of a higher priority, or they came first."""
    mine = scene.objects.workload
    if (
        mine is None
        or not waits_for_quota(mine)
        or any(rule(scene) for rule in (never_fits, no_flavor, no_queue))
    ):
        return None
    why = condition(mine, "QuotaReserved")
    if why is None:
        return None
    ahead = [one for one in scene.objects.neighbours if _is_ahead(one, mine)]
    higher = [one for one in ahead if _priority(one) > _priority(mine)]
    place = position(mine, scene.objects.neighbours, scene.objects.queues)
    told = f", {place}" if place else ""
    evidence = [of_condition(mine, why), *(_holder(one, mine) for one in (higher or ahead))]
    if higher:
        what = f"others of a higher priority go first (its own is {priority_of(mine)}){told}"
        commands = (
            "slicebench workload create … --priority CLASS",
            f"slicebench workload list --status RUNNING{_wide(ahead, mine)}",
        )
        return trouble("waits_for_priority", what, evidence, commands)
    return trouble(
        "waits_for_quota",
        f"it waits for quota that others hold; it starts by itself when that is free{told}",
        evidence,
        (
            f"slicebench workload list --status RUNNING{_wide(ahead, mine)}   # who holds it",
            f"{scene.resize}   # {_OF_AN_ENVIRONMENT}",
        ),
    )


def unknown_priority_class(scene: KubeScene) -> Trouble | None:
    """Its priority class does not exist: then Kueue makes no Workload, and says nothing of it on the JobSet."""
    told = events(scene, "WorkloadPriorityClassNotFound")
    pods = _pod_classes(scene.objects.jobset)
    unknown = [
        *_missing([label(scene.objects.jobset, PRIORITY_CLASS)], scene.workload_priority_classes),
        *_missing(pods, scene.priority_classes),
    ]
    if not told and not (unknown and scene.objects.workload is None):
        return None
    named = unknown[0] if unknown else label(scene.objects.jobset, PRIORITY_CLASS)
    evidence = [of_event(event) for event in told] or [
        line(scene.objects.jobset, f"names priority class {named}, which the cluster does not have")
    ]
    return trouble(
        "unknown_priority_class",
        f"there is no priority class {named}: Kueue never queues it",
        evidence,
        (scene.delete, scene.describe),
    )


def no_workload(scene: KubeScene) -> Trouble | None:
    """Kueue makes no Workload of it, for no reason that it tells."""
    jobset = scene.objects.jobset
    age = scene.now - (created_at(jobset) or scene.now)
    queue = label(jobset, QUEUE_NAME)
    if scene.objects.workload is not None or not queue or age < NO_WORKLOAD_AFTER_S:
        return None
    if scene.found.over or not spec(jobset).get("suspend") or unknown_priority_class(scene):
        return None
    return trouble(
        "no_workload",
        f"Kueue made no Workload of it in {age:.0f} s: it is down, leaves this namespace alone, or cannot read it",
        [line(jobset, f"is suspended and names queue {queue}; nothing in the cluster refers to it")],
        (scene.describe, f"slicebench workload inspect {scene.workload}   # Kueue's own log is in it"),
        "why: it only stands in the log of kueue-controller-manager",
    )


def admission_check(scene: KubeScene) -> Trouble | None:
    """Kueue waits for a check of its own, as for machines that are asked for when there are some."""
    if scene.found.reason != ADMISSION_CHECK:
        return None
    return trouble(
        "waits_for_capacity",
        "it has quota, and waits for capacity that was asked for",
        [line(scene.objects.workload, scene.found.message)],
        (f"slicebench workload explain {scene.workload}   # again, later", scene.describe),
    )


def jobs_refused(scene: KubeScene) -> Trouble | None:
    """JobSet cannot make its Jobs, as for a bad pod template; Kueue has admitted it, so it holds its quota."""
    told = [one for one in events(scene, "JobCreationFailed") if "already exists" not in said(one)]
    if not told or scene.objects.jobs:
        return None
    return trouble(
        "bad_pod_template",
        "its Jobs are refused: something in the pod template is wrong. It holds its quota until it is deleted",
        [of_event(told[0])],
        (scene.delete, "slicebench plan SUITE --target TARGET   # checks the template beforehand"),
    )


def _judged(scene: KubeScene, wanted: Verdict) -> Condition | None:
    """Returns the condition that says why it has no quota, if it comes to this."""
    why = refused(scene, "")
    if why is None:
        return None
    return why if (verdict(why.message) or _BY_REASON.get(why.reason)) == wanted else None


def _is_ahead(one: Object, mine: Object) -> bool:
    """Says whether another has quota, or waits for it with a higher priority."""
    if uid_of(one) == uid_of(mine) or is_true(one, "Finished"):
        return False
    return bool(admitted_by(one)) or (waits_for_quota(one) and _priority(one) > _priority(mine))


def _priority(one: Object) -> int:
    return number(spec(one).get("priority"))


def _holder(one: Object, mine: Object) -> Line:
    has = f"has quota in {admitted_by(one)}" if admitted_by(one) else "waits before it"
    where = "" if namespace(one) == namespace(mine) else f", in namespace {namespace(one)}"
    return line(one, f"{has}, priority {priority_of(one)}{where}")


def _wide(holders: Sequence[Object], mine: Object) -> str:
    """Returns the flag by which a list shows those who hold the quota: they may be in a namespace of another team."""
    return " --all-namespaces" if any(namespace(one) != namespace(mine) for one in holders) else ""


def _selectors(scene: KubeScene) -> list[Line]:
    """Returns what its pods ask of nodes."""
    told = []
    for one in spec(scene.objects.jobset).get("replicatedJobs") or ():
        pod = (((one.get("template") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
        if selector := pod.get("nodeSelector"):
            asked = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            told.append(line(scene.objects.jobset, f"pods of {one.get('name')} ask for nodes with {asked}"))
    return told


def _pod_classes(jobset: Object | None) -> list[str]:
    jobs = [(one.get("template") or {}).get("spec") or {} for one in spec(jobset).get("replicatedJobs") or ()]
    return [
        str(((job.get("template") or {}).get("spec") or {}).get("priorityClassName") or "") for job in jobs
    ]


def _missing(named: Iterable[str], there: Collection[str] | None) -> list[str]:
    """Returns those of the classes that are not there; none where nobody asked."""
    return [one for one in named if one and there is not None and one not in there]
