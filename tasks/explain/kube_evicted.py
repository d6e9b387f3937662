"""Troubles of a workload whose quota Kueue took back: for another, for its own sake, or because it was switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tasks.explain.kube_scene import KubeScene, line, of_condition, trouble
from tasks.explain.scene import Line, Trouble
from tasks.targets.kube_found import ADMISSION_CHECK
from tasks.targets.kube_objects import Condition, condition, is_true, metadata, name, spec, uid_of
from tasks.targets.kube_queue import priority_of

EVICTIONS: Mapping[str, str] = {
    "PodsReadyTimeout": "its pods were not all ready in the time that Kueue gives them",
    "NodeFailures": "a node that it was on failed",
    ADMISSION_CHECK: "a check of its admission no longer holds, as when machines that were promised do not come",
    "ClusterQueueStopped": "its queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
}
"""Why Kueue takes a workload's quota back though nobody of a higher priority wants it."""


def for_its_own_sake(reason: str) -> str | None:
    """Returns why Kueue took its quota back, by how the reason begins; None: for another, as far as is known."""
    return next((why for known, why in EVICTIONS.items() if reason.startswith(known)), None)


def evicted(scene: KubeScene) -> Trouble | None:
    """Its quota was taken back; unless it was switched off it starts again when there is some."""
    why = is_true(scene.objects.workload, "Evicted")
    if why is None or scene.found.over:
        return None
    if spec(scene.objects.workload).get("active") is False:
        return trouble(
            "switched_off",
            "its Workload was switched off (spec.active is false): it waits until somebody switches it on",
            [of_condition(scene.objects.workload, why)],
            (scene.delete,),
        )
    known = for_its_own_sake(why.reason)
    return _preempted(scene, why) if known is None else _taken_back(scene, why, known)


def _preempted(scene: KubeScene, why: Condition) -> Trouble:
    waiting = condition(scene.objects.workload, "QuotaReserved")
    evidence = [of_condition(scene.objects.workload, why)]
    if waiting is not None and not waiting.true:
        evidence.append(of_condition(scene.objects.workload, waiting))
    return trouble(
        "preempted",
        "it was preempted, and starts again by itself from its last checkpoint when there is room",
        [*evidence, *_preemptor(scene, why)],
        ("slicebench workload list --status RUNNING", f"slicebench workload explain {scene.workload}"),
    )


def _taken_back(scene: KubeScene, why: Condition, known: str) -> Trouble:
    return trouble(
        "evicted",
        f"Kueue took its quota back: {known}. It waits for its turn again, and starts again by itself",
        [of_condition(scene.objects.workload, why)],
        (f"slicebench workload explain {scene.workload}   # again, once it has started", scene.describe),
    )


def _preemptor(scene: KubeScene, why: Condition) -> Iterator[Line]:
    """Yields who took its place, when it is among those that are known."""
    found = re.search(r"\bUID: ([0-9a-f-]{36})", why.message)
    for one in scene.objects.neighbours:
        if found and uid_of(one) == found.group(1):
            owner = next(
                (str(ref.get("name")) for ref in metadata(one).get("ownerReferences") or ()), name(one)
            )
            yield line(one, f"took its place: {owner}, priority {priority_of(one)}")
