"""For kill tests of what is put into a cluster: its mutating calls, the moments about them, and a wait in a hurry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tasks.targets.kube_install import Waits
from tests.chaos.driver import sample
from tests.cloud.container.running import Gke
from tests.waiting import PATIENCE_S

WITHOUT: dict[str, Any] = {"without": ["jobset", "kueue"]}
"""A Kubernetes in which nothing is installed, see the setting `kubernetes` of the stand-in for GKE."""
SOON = Waits(ready_s=PATIENCE_S, answers_s=PATIENCE_S, look_s=0.02)

_MUTATING = ("create", "patch", "update", "delete")
_MOMENTS = ("kill_before", "kill_after")


def mutating(calls: Sequence[str]) -> list[str]:
    """Returns those of the calls that change something, each once."""
    return list(dict.fromkeys(call for call in calls if call.split()[0] in _MUTATING))


def calls_inside(gke: Gke) -> list[str]:
    """Returns the mutating calls that the cluster `mine` saw since this was asked last, each once."""
    return mutating(gke.kubernetes("mine").calls())


def fault(call: str, moment: str) -> dict[str, Any]:
    """Returns the fault that strikes at the first of such calls."""
    verb, kind, where = call.split()
    name = re.sub(r"-e\d+", "-e*", where.rpartition("/")[2])  # of another lease each time
    return {"verb": verb, "kind": kind, "name": name, "action": moment, "nth": 1}


def moments_of(calls: Sequence[str]) -> list[tuple[str, str]]:
    """Returns calls with when the plug is pulled: before it takes effect, and after; a sample, see `sample`."""
    chosen = sample([(2 * nth + at, call) for nth, call in enumerate(calls) for at in (0, 1)])
    return [(call, _MOMENTS[number % 2]) for number, call in chosen]
