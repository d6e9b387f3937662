"""For tests: leases over the stand-in for GKE, with inventories that look often and settle soon; a desk in a hurry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.cloud.compute import Compute
from tasks.cloud.container import Container
from tasks.config.cluster import ClusterConfig
from tasks.config.home import ledger_folder, scratch_folder
from tasks.leases.clusters import CLUSTER, POOL, ClusterInventory, NodePoolInventory, lease_name
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, Pace, open_inventories
from tasks.leases.ledger import Ledger, latest
from tasks.leases.patience import USUAL
from tasks.leases.policies import POLICY, PolicyInventory
from tasks.leases.release import Release
from tasks.leases.shares import last_out
from tasks.stages.cluster_standing import Office
from tests.cloud.container.hurried import QUICK, ZONE, container

_PACE = Pace(look_every_s=0.05, goes_within_s=120.0, remote=True)


def _looking(project: str) -> Container:
    return Container(project, timing=QUICK, busy_s=0.0)


def _looking_beside(project: str) -> Compute:
    return Compute(project, timing=QUICK)


def a_ledger() -> DirectoryLedger:
    """Returns the ledger of this test's state root."""
    return DirectoryLedger(ledger_folder())


def quick_inventories(ledger: Ledger, scratch: Path | None = None) -> Inventories:
    """Returns every inventory; those of GKE are in a hurry."""
    hurried: Inventories = {
        CLUSTER: ClusterInventory(ledger, pace=_PACE, settle_s=0.3, container=_looking),
        POOL: NodePoolInventory(ledger, pace=_PACE, settle_s=0.3, container=_looking),
        POLICY: PolicyInventory(ledger, pace=_PACE, settle_s=0.3, compute=_looking_beside),
    }
    return {**open_inventories(ledger, scratch or scratch_folder()), **hurried}


def office(say: Callable[[str], None] = lambda line: None, **more: Any) -> Office:
    """Returns a desk where clusters are asked for, in a hurry."""
    ledger = a_ledger()
    return Office(container(), ledger, quick_inventories(ledger), say, poll_s=0.01, **more)


def left_by(run: Holding, cluster: str = "mine") -> Release | None:
    """Gives a cluster back whose run is over, as its teardown does; None: others share it, or it is kept."""
    lease = latest(run.ledger, lease_name("proj", cluster))
    return last_out(run.ledger, run.inventories, lease.lease_id, USUAL) if lease else None


def config(**fields: Any) -> ClusterConfig:
    """Returns what is wanted: slices of v5e in the zone that has them."""
    return ClusterConfig.model_validate({"zone": ZONE, "type": "v5litepod-16", **fields})
