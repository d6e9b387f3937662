"""`GET …/pods/NAME/log`: which container, from when, and what is told where there is no log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock, refusals
from tests.cloud.kubernetes.calls import Call
from tests.cloud.kubernetes.lifecycle import SILENT
from tests.cloud.kubernetes.logs import Wanted, stream
from tests.cloud.kubernetes.refusals import Refused

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def lines(world: World, call: Call) -> AsyncIterator[bytes] | None:
    """Returns the log's text, piece by piece; None where the pod is on no node yet."""
    pod = world.store.at(call.key)
    if pod is None:
        raise refusals.not_found("pods", call.name)
    container = _container(pod, call)
    wanted = _wanted(call)
    previous = call.flag("previous")
    if not pod["spec"].get("nodeName"):
        return None  # no content, whatever was asked for
    log = world.logs.find(pod["metadata"]["uid"], container, previous=previous)
    if log is None and previous:
        raise Refused(400, f'previous terminated container "{container}" in pod "{call.name}" not found')
    if log is None:
        waiting = _waiting(pod, container)
        raise Refused(400, f'container "{container}" in pod "{call.name}" is waiting to start: {waiting}')
    node = world.store.get("nodes", "", pod["spec"].get("nodeName", ""))
    if node is not None and node["metadata"].get("annotations", {}).get(SILENT):
        address = f"https://127.0.0.1:10250/containerLogs/{call.namespace}/{call.name}/{container}"
        raise Refused(500, f'Get "{address}": dial tcp 127.0.0.1:10250: connect: no route to host')
    return stream(log, wanted, world.faults.cuts["log"])


def _container(pod: dict[str, Any], call: Call) -> str:
    spec = pod["spec"]
    names = [one["name"] for one in (*spec["containers"], *(spec.get("initContainers") or ()))]
    asked = call.query.get("container", "")
    if asked and asked not in names:
        raise Refused(400, f"container {asked} is not valid for pod {call.name}")
    if not asked and len(names) > 1:
        choice = f"choose one of: [{' '.join(one['name'] for one in spec['containers'])}]"
        inits = [one["name"] for one in spec.get("initContainers") or ()]
        more = f" or one of the init containers: [{' '.join(inits)}]" if inits else ""
        raise Refused(400, f"a container name must be specified for pod {call.name}, {choice}{more}")
    return asked or str(names[0])


def _wanted(call: Call) -> Wanted:
    since, seconds = call.query.get("sinceTime"), call.number("sinceSeconds")
    if since and seconds is not None:
        raise _odd(call, "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified")
    if seconds is not None and seconds < 1:
        raise _odd(call, f"sinceSeconds: Invalid value: {seconds}: must be greater than 0")
    if (tail := call.number("tailLines")) is not None and tail < 0:
        raise _odd(call, f"tailLines: Invalid value: {tail}: must be greater than or equal to 0")
    start = 0
    if since:
        try:
            # The API server hands the time on in whole seconds, so earlier lines of that second come again.
            start = int(clock.parsed(since)) * 1_000_000_000
        except ValueError:
            told = f'parsing time "{since}" as "2006-01-02T15:04:05Z07:00": cannot parse'
            raise Refused(400, told) from None
    elif seconds is not None:
        start = clock.nanoseconds() - seconds * 1_000_000_000
    return Wanted(
        call.flag("follow"),
        call.flag("timestamps"),
        start,
        tail,
        call.number("limitBytes"),
    )


def _waiting(pod: dict[str, Any], container: str) -> str:
    """Returns why a container has no log yet, as the kubelet puts it."""
    status = pod["status"]
    listed = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    state = next((one["state"] for one in listed if one["name"] == container), {})
    reason = str(state.get("waiting", {}).get("reason", "ContainerCreating" if not state else ""))
    return "trying and failing to pull image" if reason in ("ErrImagePull", "ImagePullBackOff") else reason


def _odd(call: Call, why: str) -> Refused:
    return Refused(422, f'PodLogOptions "{call.name}" is invalid: {why}')
