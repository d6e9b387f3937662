"""Changes of a cluster of GKE in place: one part at a time, each an operation that is waited for."""

from __future__ import annotations

import time
from typing import Any

from tasks.cloud.container import Container
from tasks.cloud.container_errors import Busy, Unavailable, error_of_operation
from tasks.cloud.container_transport import client, told

PARTS = ("release_channel", "logging_config", "monitoring_config", "workload_identity_config")
"""Parts of a cluster that may be changed while it is there, named as in the API."""


def change(
    container: Container, location: str, name: str, part: str, value: Any, *, limit_s: float = 3600.0
) -> None:
    """Gives a cluster another value of one of its parts, and waits until it has it. Asking twice changes nothing.

    Another's operation on the cluster is waited for, as long as the own one: `limit_s` seconds. Raises ContainerError.
    """
    timing, until = container.timing, time.monotonic() + limit_s
    full = f"projects/{container.project}/locations/{location}/clusters/{name}"
    doing = f"change {part} of cluster {name}"
    operation = ""
    while not operation:
        try:
            with told(doing, timing.try_s):
                request = {"name": full, "update": {f"desired_{part}": value}}
                operation = client().update_cluster(request=request, retry=None, timeout=timing.try_s).name
        except (Busy, Unavailable):
            if time.monotonic() >= until:
                raise
            time.sleep(timing.first_pause_s)
    while not (seen := container.operation(location, operation)).done:
        if time.monotonic() >= until:
            raise Unavailable(f"cannot {doing}: it takes more than {limit_s:.0f} s")
        time.sleep(timing.first_pause_s)
    if seen.code or seen.error:
        raise error_of_operation(seen.code, seen.error, doing)
