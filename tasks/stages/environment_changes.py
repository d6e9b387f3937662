"""What of an environment's cluster and pools is not as wanted: found, changed in place where GKE can, else told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tasks.cloud.container_document import document
from tasks.cloud.container_update import (
    MACHINE_PARTS,
    PARTS,
    POOL_PARTS,
    POOL_SIZE,
    change,
    change_pool,
)
from tasks.cloud.labels import read_labels
from tasks.cloud.things import value_at
from tasks.config.cluster import ClusterConfig
from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_cluster import cluster_of
from tasks.leases.environments import lease_name
from tasks.leases.lease import State
from tasks.leases.ledger import latest
from tasks.stages.environment_desk import Desk
from tasks.stages.environment_record import own_windows
from tasks.stages.environment_sizes import resized, unknown_size
from tasks.targets.cluster_requests import CPU_POOL
from tasks.targets.cluster_size import keeps_room
from tasks.targets.environment_diff import ANEW, Difference, differences
from tasks.targets.environment_sizes import nodes_a_zone
from tasks.targets.environment_unasked import unasked
from tasks.targets.environment_wanted import Wanted, wanted

_WHOLE = ("autoscaling", "master_authorized_networks_config")
"""Parts of the cluster of which an update leaves nothing but what it says; of the others it leaves what it does not."""
_DAILY = "maintenance_policy.window.daily_maintenance_window.start_time"


def differs(desk: Desk, config: EnvironmentConfig) -> Mapping[str, Sequence[Difference]]:
    """Returns what of the cluster and its node pools is not as wanted, beside what `cluster create` would change."""
    return {str(one): unlike for one, _, unlike in _compared(desk, config)}


def set_by_others(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns what was set on the cluster and its node pools that the file says nothing of, a line each."""
    found: list[str] = []
    for one, there in _standing(desk, config):
        if one.kind == "cluster" and _dropped_window(desk, config, one, there):  # it goes
            window = {"daily_maintenance_window": {"start_time": ""}}
            one = replace(one, fields={**one.fields, "maintenance_policy": {"window": window}})
        found += unasked(one, there)
    return found + sizes_unknown(desk, config)


def sizes_unknown(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Returns of which node pools it is not known whether somebody resized them: of none, or of the first of all."""
    told = (unknown_size(desk, one, there) for one, there in _standing(desk, config))
    return [line for line in told if line][:1]


def change_cluster(desk: Desk, config: EnvironmentConfig) -> list[str]:
    """Changes what of the cluster and its node pools may be changed while they are there; returns what stays, told."""
    for one, _, unlike in _compared(desk, config):
        parts: dict[str, list[Difference]] = {}
        for each in unlike:
            if each.can:
                parts.setdefault(_part_of(one, each.path), []).append(each)
        for part, changes in sorted(parts.items()):
            desk.say(f"change {one}: {'; '.join(map(str, changes))}")
            _change(desk, one, part)
    stays = []
    for line in sizes_unknown(desk, config):
        desk.say(f"warning: {line}")
    for what, fields in differs(desk, config).items():
        for field in fields:
            stays.append(f"{what}: {field}")
            desk.say(
                f"warning: {what} stays as it is: {field} is not changed on what is there: {field.instead}"
            )
    return stays


def _compared(
    desk: Desk, config: EnvironmentConfig
) -> Iterator[tuple[Wanted, Mapping[str, Any], Sequence[Difference]]]:
    """Yields what is there and not as wanted, as it is and with the fields."""
    cluster, now = cluster_of(config, desk.project), ""
    for one, seen in _standing(desk, config):
        now = now or str(seen.get("current_master_version", ""))  # of the cluster, which is the first
        found = differences(one, seen, _in_place(one))
        unlike = [
            each
            for each in found
            if not (_enough(one, each, now) or _has_room(one, each, cluster) or _is_placed(each, seen))
        ]
        if one.kind == "cluster" and (dropped := _dropped_window(desk, config, one, seen)):
            unlike.append(dropped)
        if misnamed := _misnamed(one, config):
            unlike.append(misnamed)
        if size := resized(desk, one, seen):
            unlike.append(size)
        if unlike:
            yield one, seen, unlike


def _standing(desk: Desk, config: EnvironmentConfig) -> Iterator[tuple[Wanted, Mapping[str, Any]]]:
    """Yields the cluster and those of its node pools that are wanted, each as it is, where it is there."""
    location = cluster_of(config, desk.project).location
    there = document(desk.project, location, config.cluster.name, desk.timing)
    if there is None:
        return
    asked = wanted(config, desk.project)
    yield from ((one, there) for one in asked if one.kind == "cluster")
    pools = {str(one["name"]): one for one in there.get("node_pools", ())}
    named = [one for one in asked if one.kind == "node pool"]
    # Slices that are there are kept by whatever name: of others than the file's, they are told by their own.
    names = {one.name for one in named}
    others = iter([name for name, pool in pools.items() if name not in names and _is_own(desk, pool)])
    for one in named:
        if one.name in pools:
            yield one, pools[one.name]
        elif one.name != CPU_POOL and (other := next(others, None)) is not None:
            yield replace(one, name=other), pools[other]


def _is_own(desk: Desk, pool: Mapping[str, Any]) -> bool:
    """Whether a node pool was made under a lease of the record."""
    labelled = read_labels((pool.get("config") or {}).get("resource_labels") or {})
    return labelled is not None and labelled.ledger_id == desk.ledger.id


def _misnamed(one: Wanted, config: EnvironmentConfig) -> Difference | None:
    """Returns that a slice is not called as the file has slices called; which number it has is of no matter."""
    if one.kind != "node pool" or one.name == CPU_POOL or one.name.startswith(f"{config.tpu.pool_prefix}-"):
        return None
    return Difference("name", one.name, f"{config.tpu.pool_prefix}-N", can=False, instead=ANEW)


def _in_place(one: Wanted) -> Sequence[str]:
    if one.kind == "cluster":
        return PARTS
    return (*POOL_PARTS, POOL_SIZE, *(MACHINE_PARTS if one.name == CPU_POOL else ()))


def _part_of(one: Wanted, path: str) -> str:
    return next(part for part in _in_place(one) if path == part or path.startswith(f"{part}."))


def _dropped_window(
    desk: Desk, config: EnvironmentConfig, one: Wanted, there: Mapping[str, Any]
) -> Difference | None:
    """Returns that a cluster has the maintenance window that the file named before, and does not name any more.

    One that somebody else gave it is not asked about, and stays.
    """
    lease = latest(desk.ledger, lease_name(desk.project, config.called))
    if lease is None or lease.state is State.GONE or "maintenance_policy" in one.fields:
        return None
    has = value_at(there, _DAILY)
    return Difference(_DAILY, has, None, can=True) if has and has in own_windows(lease.shape) else None


def _change(desk: Desk, one: Wanted, part: str) -> None:
    value = value_at(one.fields, part)
    if one.kind == "cluster":
        edit = partial(_of_cluster, part, value)
        change(desk.container, one.scope.partition("/")[2], one.name, part, edit)
        return
    _, place, cluster = one.scope.split("/")

    def beside(now: Mapping[str, Any]) -> Any:
        if part == POOL_SIZE:
            return nodes_a_zone(one, len(now.get("locations", ())))
        has = value_at(now, part)
        both = isinstance(value, Mapping) and isinstance(has, Mapping)
        return {**has, **value} if both else value  # what nobody asks for stays as it is

    change_pool(desk.container, place, cluster, one.name, part, beside)


def _of_cluster(part: str, value: Any, now: Mapping[str, Any]) -> Any:
    """Returns what a part of a cluster becomes: as it is wanted, with all that stands beside that."""
    has = value_at(now, part) or {}
    if part == "maintenance_policy":
        wanted, there = (value or {}).get("window", {}), has.get("window", {})
        exclusions = {
            **there.get("maintenance_exclusions", {}),
            **wanted.get("maintenance_exclusions", {}),
        }  # of either kind of window, which is one or the other
        return {**has, "window": {**wanted, "maintenance_exclusions": exclusions}}
    is_off = isinstance(value, Mapping) and value.get("enabled") is False
    return {**has, **value} if part in _WHOLE and not is_off else value


def _enough(one: Wanted, unlike: Difference, now: str = "") -> bool:
    """Whether a difference is none: such as the version that a shorter one meant, or to which it was upgraded `now`.

    The number of CPU machines is that of their autoscaling: with how many they began says nothing.
    """
    if unlike.path == "initial_node_count":
        return one.name == CPU_POOL
    if unlike.path != "initial_cluster_version":
        return False
    said = str(unlike.wanted)
    return said in ("latest", "-") or any(
        one == said or one.startswith((f"{said}.", f"{said}-")) for one in (str(unlike.there), now)
    )


def _is_placed(unlike: Difference, there: Mapping[str, Any]) -> bool:
    """Whether hosts are placed by the policy that was made for their cluster: by name, and not by type."""
    return unlike.path == "placement_policy.type" and bool(value_at(there, "placement_policy.policy_name"))


def _has_room(one: Wanted, unlike: Difference, cluster: ClusterConfig) -> bool:
    """Whether more CPU machines than are needed may come: none fewer are asked for while TPUs are given back."""
    is_most = one.name == CPU_POOL and unlike.path == "autoscaling.total_max_node_count"
    return is_most and keeps_room(cluster, int(unlike.there or 0))
