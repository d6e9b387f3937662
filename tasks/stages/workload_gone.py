"""Workloads that are to go: they are asked to, and waited for until no pod of them is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runtime.contract.counting import counted
from runtime.contract.errors import InfrastructureError
from tasks.cloud.kubernetes_going import why_still
from tasks.cloud.kubernetes_kinds import JOB_SET, POD, Object
from tasks.cloud.kubernetes_labels import JOBSET_UID
from tasks.targets.kube_objects import name, uid_of

if TYPE_CHECKING:
    from tasks.stages.workload_desk import Desk

_LONG_S = 10.0
"""For so long pods may end without a word: it is told then what keeps them."""


def delete(desk: Desk, jobset: Object) -> None:
    """Asks a JobSet to go. Another one that gets its name meanwhile is left alone."""
    desk.kube.delete(JOB_SET, name(jobset), desk.namespace, uid=uid_of(jobset))


def wait_gone(desk: Desk, jobsets: Sequence[Object], limit_s: float, say: Callable[[str], None]) -> None:
    """Waits until no pod of the JobSets is left: quota is free before the hardware is. Raises InfrastructureError."""
    begin, told, why = time.monotonic(), -1, ""
    while True:
        left = [pod for one in jobsets for pod in desk.all(POD, f"{JOBSET_UID}={uid_of(one)}")]
        if not left:
            return
        waited = time.monotonic() - begin
        still = _why_still(desk, left, jobsets) if waited > min(limit_s, _LONG_S) else ""
        if waited > limit_s:
            raise InfrastructureError(
                f"{counted(len(left), 'pod')} still there after {limit_s:g} s, the first {name(left[0])}: "
                f"{still or 'nobody has asked it to go yet'}"
            )
        if len(left) != told:
            say(f"{counted(len(left), 'pod')} still ending")
            told = len(left)
        if still and still != why:
            say(f"still waiting after {waited:.0f} s, for {limit_s - waited:.0f} s more at most: {still}")
            why = still
        time.sleep(min(1.0, max(0.05, limit_s / 50)))


def _why_still(desk: Desk, pods: Sequence[Object], jobsets: Sequence[Object]) -> str:
    """Returns what keeps pods of JobSets that were deleted: one that is held itself never asks its pods to go."""
    there = {uid_of(one): desk.kube.find(JOB_SET, name(one), desk.namespace) for one in jobsets}
    return why_still([*pods, *(one for uid, one in there.items() if one is not None and uid_of(one) == uid)])
