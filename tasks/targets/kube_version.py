"""Whether a cluster is new enough for containers that stand beside the workers, by what its server says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runtime.contract.errors import Problem
from tasks.targets.kube_objects import Object, spec

OLDEST = (1, 29)
"""The first version of Kubernetes that starts an initContainer with restartPolicy Always beside the others without
being told to: before, it waits for its end as for that of any other, and the workers never begin."""


def too_old(version: str, jobset: Object, cluster: str) -> Problem | None:
    """Returns why a cluster with this version (`v1.33.4-gke.100`) cannot run a JobSet, or None. Pure.

    A version that says nothing is not judged.
    """
    told = re.match(r"v?(\d+)\.(\d+)", version)
    if told is None or (int(told[1]), int(told[2])) >= OLDEST:
        return None
    names = ", ".join(dict.fromkeys(native_sidecars(jobset)))
    if not names:
        return None
    least = ".".join(map(str, OLDEST))
    return Problem(
        "error",
        None,
        f"{cluster} is Kubernetes {version}, which knows no sidecars, and {names} would stand beside the workers",
        why=f"it waits for the end of {names} before it starts them, for ever",
        fix=f"upgrade the cluster to {least} or later, or leave that out of the target",
    )


def native_sidecars(jobset: Object) -> Iterator[str]:
    """Yields the names of a JobSet's containers that are up before the others of their pod, and end after them."""
    for one in spec(jobset).get("replicatedJobs") or ():
        pod = spec(spec(one.get("template") or {}).get("template") or {})
        for container in pod.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                yield str(container.get("name"))
