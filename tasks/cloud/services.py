"""Which APIs are on in a project, turning them on, and what the caller may do there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from tasks.cloud.container_errors import Disabled
from tasks.cloud.google_rest import Rest
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

_AT_ONCE = 20
"""APIs that one call turns on, and that one call is asked about."""


def off(project: str, names: Sequence[str], timing: Timing) -> list[str]:
    """Returns those of the APIs that are not on. Raises ContainerError."""
    rest, found = Rest("serviceusage.googleapis.com", timing=timing), []
    for some in _parts(names):
        query = "&".join(f"names=projects/{project}/services/{name}" for name in some)
        told = rest.get("ask which APIs are on", f"v1/projects/{project}/services:batchGet?{query}")
        states = {str(one["name"]).rpartition("/")[2]: one.get("state") for one in told.get("services", ())}
        found += [name for name in some if states.get(name) != "ENABLED"]
    return found


def turn_on(project: str, names: Sequence[str], timing: Timing) -> None:
    """Turns APIs on, and waits until they are. Those that are on already are no matter. Raises ContainerError."""
    rest = Rest("serviceusage.googleapis.com", timing=timing)
    for some in _parts(names):
        doing = f"turn on {', '.join(some)}"
        operation = rest.send(
            "POST", doing, f"v1/projects/{project}/services:batchEnable", {"serviceIds": list(some)}
        )
        rest.follow(doing, operation, "v1")


def turn_on_one(
    project: str, name: str, timing: Timing, say: Callable[[str], None], answers: Callable[[], object]
) -> None:
    """Turns on an API that is needed to go on at all, and waits until `answers` is answered. Raises ContainerError."""
    say(f"turn on {name}")
    turn_on(project, [name], timing)
    once_on(timing, answers)


def once_on(timing: Timing, answers: Callable[[], object]) -> None:
    """Waits until APIs that were just turned on are so everywhere: for minutes some of their servers say that they
    are off. Raises ContainerError.
    """
    for pause in pauses(timing, "wait until what was turned on is on everywhere"):
        try:
            answers()
            return
        except Disabled as error:
            if pause is None:
                raise
            tried(str(error))
            time.sleep(pause)


def lacking(project: str, permissions: Iterable[str], timing: Timing) -> list[str]:
    """Returns those of the permissions that the caller does not have on a project. Raises ContainerError."""
    rest, wanted = Rest("cloudresourcemanager.googleapis.com", timing=timing), sorted(set(permissions))
    found: list[str] = []
    for some in _parts(wanted, 100):
        path = f"v3/projects/{project}:testIamPermissions"
        told = rest.ask("POST", "ask what you may do", path, {"permissions": list(some)})
        found += [one for one in some if one not in told.get("permissions", ())]
    return found


def lacking_on_subnetwork(scope: str, permissions: Sequence[str], timing: Timing) -> list[str]:
    """Returns those of the permissions that the caller does not have on a subnetwork, by whatever it has them.

    `scope` is "project/regions/region/subnetworks/name". Raises ContainerError.
    """
    path = f"compute/v1/projects/{scope}/testIamPermissions"
    asked = {"permissions": list(permissions)}
    told = Rest("compute.googleapis.com", timing=timing).ask("POST", "ask what you may do", path, asked)
    return [one for one in permissions if one not in told.get("permissions", ())]


def _parts(names: Sequence[str], size: int = _AT_ONCE) -> list[Sequence[str]]:
    return [names[begin : begin + size] for begin in range(0, len(names), size)]
