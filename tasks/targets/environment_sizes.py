"""How many nodes a node pool of an environment is to have in each zone, beside how many it has now. Pure.

Of one that grows by itself the size is the autoscaler's: only fewer than the least, or more than the most, that it may
go to are somebody's doing. A pool is made larger alone: with fewer nodes, what runs on the others would end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tasks.cloud.container_update import POOL_SIZE
from tasks.targets.environment_diff import Difference
from tasks.targets.environment_wanted import Wanted


def unlike_size(one: Wanted, there: Mapping[str, int], most: int | None = None) -> Difference | None:
    """Returns that a node pool has another size than it is to have; `there`: its nodes by zone. None: it has not.

    `most`: to how many nodes in all zones it may go by itself now; None: it does not, or to any.
    """
    each, least, has = nodes_a_zone(one, len(there)), least_of(one), sum(there.values())
    if least is None and all(nodes == each for nodes in there.values()):
        return None
    if least is not None and most is not None and has > most:
        return Difference(POOL_SIZE, _said(there), most, can=False, instead=_fewer(one, most // len(there)))
    if least is not None and has >= least:
        return None
    grows = all(nodes <= each for nodes in there.values())
    wanted = _said(dict.fromkeys(there, each))
    return Difference(POOL_SIZE, _said(there), wanted, grows, "" if grows else _fewer(one, each))


def most_of(there: Mapping[str, Any], zones: int) -> int | None:
    """Returns to how many nodes in all zones a node pool that is there goes by itself; None: to any, or it does not."""
    scaling = there.get("autoscaling") or {}
    if not scaling.get("enabled"):
        return None
    return (
        int(scaling.get("total_max_node_count") or 0)
        or int(scaling.get("max_node_count") or 0) * zones
        or None
    )


def _fewer(one: Wanted, each: int) -> str:
    """Returns what takes nodes away of which a pool has too many."""
    _, location, cluster = one.scope.split("/")
    does = f"gcloud container clusters resize {cluster} --location {location} --node-pool {one.name} --num-nodes {each}"
    by_itself = "" if least_of(one) is None else "its autoscaler takes away nodes that nobody uses; "
    return f"{by_itself}`{does}` takes nodes away with what runs on them"


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
