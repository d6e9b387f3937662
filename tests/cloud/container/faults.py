"""Which calls change something, and the faults that strike them: as of the stand-in for Cloud TPU."""

from __future__ import annotations

from tests.cloud.container.store import Store
from tests.cloud.tpu.faults import Fault

MUTATING = frozenset(
    {
        "CreateCluster",
        "UpdateCluster",
        "DeleteCluster",
        "CreateNodePool",
        "DeleteNodePool",
        "SetNodePoolSize",
        "SetLabels",
        "InsertResourcePolicy",
        "DeleteResourcePolicy",
    }
)


def due(store: Store, method: str) -> tuple[Fault, int]:
    """Counts this call against every fault that waits for it; see tests.cloud.tpu.faults."""
    struck: Fault = {}
    with store.changing() as world:
        for fault in world["faults"]:
            wanted = fault["method"]
            if wanted not in (method, "*") and not (wanted == "mutating" and method in MUTATING):
                continue
            fault["seen"] = fault.get("seen", 0) + 1
            nth = fault.get("nth", 1)
            if not struck and nth <= fault["seen"] < nth + fault.get("times", 1):
                struck = dict(fault)
        return struck, int(world["born"])
