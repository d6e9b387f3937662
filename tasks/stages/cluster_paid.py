"""How accelerators of a cluster that is there are paid for, for whoever asks for it again and does not say how."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runtime.contract.errors import BadInput
from tasks.cloud.container_model import Pool
from tasks.cloud.labels import read_labels
from tasks.cloud.resource_names import problem_with
from tasks.config.as_flags import Flags
from tasks.config.cluster import ClusterConfig
from tasks.config.findings import checked
from tasks.leases.clusters import lease_name
from tasks.leases.lease import HELD, Lease
from tasks.leases.ledger import latest
from tasks.stages.cluster_standing import Office
from tasks.stages.clusters import LONGEST
from tasks.targets.cluster_find import find
from tasks.targets.cluster_requests import CPU_POOL


def paid_as_there(office: Office, name: str, config: ClusterConfig) -> ClusterConfig:
    """Returns the config with the capacity that node pools of the cluster have, where it names none, and says so.

    Else slices that work would be taken away for ones that are paid for otherwise, which nobody asked for. Where all
    slices were given back, it is as the lease says. Raises BadInput for pools that are paid for in several ways.
    """
    unnamed = problem_with(name, LONGEST, "a cluster") is None and "capacity" not in config.model_fields_set
    if config.type is None or not unnamed:
        return config
    lease = latest(office.ledger, lease_name(office.container.project, name))
    if lease is None or lease.state not in HELD:
        return config
    pools = _pools(office, name, config, lease)
    found = sorted({pool.capacity for pool in pools})
    if len(found) > 1:
        each = ", ".join(f"{pool.name} {pool.capacity}" for pool in pools)
        raise BadInput(
            f"node pools of {name} are paid for in several ways: {each}",
            fix="say by --capacity how all are to be",
        )
    before = json.loads(lease.shape.get("config", "{}"))
    capacity = found[0] if found else before.get("capacity", config.capacity)
    if capacity == config.capacity:
        return config
    asked = {**config.model_dump(exclude_unset=True), "capacity": capacity}
    if capacity == "reservation":
        used = sorted({pool.reservation for pool in pools})
        named = before.get("reservations", ())
        asked["reservations"] = named if set(used) <= set(named) else used
    kept = checked(ClusterConfig, asked, Flags(), fix="say by --capacity how they are paid for")
    office.say(f"capacity: {capacity}, as {name} has it; --capacity says another")
    return kept


def _pools(office: Office, name: str, config: ClusterConfig, lease: Lease) -> Sequence[Pool]:
    """Returns the node pools of accelerators that were made under the lease."""
    there = find(office.container, name, config.location)
    ours = (lease.lease_id, office.ledger.id)
    found = []
    for pool in there.pools if there is not None else ():
        whose = read_labels(pool.labels)
        mine = whose is not None and (whose.lease_id, whose.ledger_id) == ours
        if mine and pool.name != CPU_POOL and pool.state != "STOPPING":
            found.append(pool)
    return found
