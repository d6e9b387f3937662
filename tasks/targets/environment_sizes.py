"""How many nodes a node pool of an environment is to have in each zone, beside how many it has now. Pure.

Of one that grows by itself the size is the autoscaler's: only fewer than the least it may go to are somebody's doing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tasks.cloud.container_update import POOL_SIZE
from tasks.targets.environment_diff import Difference
from tasks.targets.environment_wanted import Wanted


def unlike_size(one: Wanted, there: Mapping[str, int]) -> Difference | None:
    """Returns that a node pool has another size than it is to have; `there`: its nodes by zone. None: it has not."""
    each, least = nodes_a_zone(one, len(there)), least_of(one)
    if all(has == each for has in there.values()) or (least is not None and sum(there.values()) >= least):
        return None
    return Difference(POOL_SIZE, _said(there), _said(dict.fromkeys(there, each)), can=True)


def nodes_a_zone(one: Wanted, zones: int) -> int:
    """Returns how many nodes GKE is asked for in each of so many zones."""
    least = least_of(one)
    if least is None:
        return int(one.fields.get("initial_node_count") or 0)
    return math.ceil(least / max(1, zones))


def least_of(one: Wanted) -> int | None:
    """Returns to how few nodes in all zones a pool goes by itself; None: its size is fixed."""
    scaling = one.fields.get("autoscaling") or {}
    return int(scaling.get("total_min_node_count") or 0) if scaling.get("enabled") else None


def _said(by_zone: Mapping[str, int]) -> int | dict[str, int]:
    """Returns sizes as people are told them: of one zone, without its name."""
    return next(iter(by_zone.values())) if len(by_zone) == 1 else dict(by_zone)
