"""For tests: leases over the stand-in for Cloud TPU, with inventories that look often and settle soon."""

from __future__ import annotations

from pathlib import Path

from tasks.cloud.timing import Timing
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_model import NodeRequest, QueuedRequest
from tasks.config.home import ledger_folder, scratch_folder
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.holding import Holding
from tasks.leases.inventory import Inventories, Pace, open_inventories
from tasks.leases.ledger import Ledger
from tasks.leases.resource import ResourceRef
from tasks.leases.tpu_entries import ENTRY, TpuEntryInventory
from tasks.leases.tpus import NODE, QUEUED, TpuNodeInventory, TpuQueuedInventory

ZONE = "us-east5-b"
SCOPE = f"proj/{ZONE}"
QUICK = Timing(try_s=20.0, total_s=60.0, first_pause_s=0.01, longest_pause_s=0.1)
_PACE = Pace(look_every_s=0.05, goes_within_s=1.0, remote=True)


def quick_inventories(ledger: Ledger, scratch: Path | None = None) -> Inventories:
    """Returns every inventory; those of Cloud TPU are in a hurry."""
    hurried: Inventories = {
        NODE: TpuNodeInventory(ledger, pace=_PACE, settle_s=0.5),
        QUEUED: TpuQueuedInventory(ledger, pace=_PACE, settle_s=0.5),
        ENTRY: TpuEntryInventory(ledger, pace=_PACE, settle_s=0.5),
    }
    return {**open_inventories(ledger, scratch or scratch_folder()), **hurried}


def a_ledger() -> DirectoryLedger:
    """Returns the ledger of this test's state root."""
    return DirectoryLedger(ledger_folder())


def request(holding: Holding, kind: str = "v6e-4") -> NodeRequest:
    """Returns a request with the labels of a lease."""
    return NodeRequest(kind, "v2-alpha-tpuv6e", holding.resource_labels)


def make_node(holding: Holding, name: str, kind: str = "v6e-4") -> ResourceRef:
    """Makes a node through a lease."""
    tpu = CloudTpu("proj", timing=QUICK)
    return holding.create(NODE, SCOPE, name, lambda: tpu.create_node(ZONE, name, request(holding, kind)).uid)


def make_queued(holding: Holding, name: str, slices: int = 2) -> ResourceRef:
    """Makes a queued resource through a lease."""
    tpu = CloudTpu("proj", timing=QUICK)
    wanted = QueuedRequest(request(holding), name, slices)
    return holding.create(QUEUED, SCOPE, name, lambda: tpu.create_queued(ZONE, name, wanted).uid)
