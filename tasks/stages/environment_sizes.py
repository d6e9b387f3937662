"""How many nodes the node pools of an environment have now: Compute Engine knows, GKE with how many they began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.cloud.compute import Compute
from tasks.cloud.container_errors import Disabled, PermissionDenied
from tasks.stages.environment_desk import Desk
from tasks.targets.environment_diff import Difference
from tasks.targets.environment_sizes import most_of, unlike_size
from tasks.targets.environment_wanted import Wanted

_SETTLED = "RUNNING"
"""While GKE works on a pool it may have more nodes than it is to have, such as those that an upgrade adds."""


def resized(desk: Desk, one: Wanted, there: Mapping[str, Any]) -> Difference | None:
    """Returns that a node pool has another size than it is to have: somebody resized it. None: it has not.

    Nor has one of which nobody here may look at that, see `unknown_size`, or on which GKE works.
    """
    if one.kind != "node pool" or there.get("status") != _SETTLED or Compute.is_left_out():
        return None
    try:
        sizes = _sizes(desk, there)
    except (Disabled, PermissionDenied):
        return None
    most = max((some for each in (there, one.fields) if (some := most_of(each, len(sizes)))), default=None)
    return unlike_size(one, sizes, most) if sizes else None


def unknown_size(desk: Desk, one: Wanted, there: Mapping[str, Any]) -> str:
    """Returns that how many nodes a pool has is not known, as whoever asks may not look; empty: it is."""
    if one.kind != "node pool" or Compute.is_left_out():
        return ""
    try:
        _sizes(desk, there)
    except (Disabled, PermissionDenied) as error:
        return f"whether somebody resized {one} is not known ({error})"
    return ""


def _sizes(desk: Desk, there: Mapping[str, Any]) -> Mapping[str, int]:
    """Returns how many nodes a pool is to have by zone, as its groups of machines have it."""
    compute = Compute(desk.project, timing=desk.timing)
    groups = there.get("instance_group_urls") or ()
    return {url.split("/zones/")[1].split("/")[0]: compute.target_size(url) for url in groups}
