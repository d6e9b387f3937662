"""The nodes of a cluster: pools of them as a test declares them, with the labels and taints that GKE gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cloud.kubernetes import clock
from tests.cloud.kubernetes.conditions import put
from tests.cloud.kubernetes.lifecycle import SILENT

if TYPE_CHECKING:
    from tests.cloud.kubernetes.kubelet import Kubelet
    from tests.cloud.kubernetes.world import World

DEFAULT = [{"pool": "default-pool", "count": 2}]


def tpu_pool(pool: str, accelerator: str, topology: str, *, hosts: int, chips: int = 4) -> dict[str, Any]:
    """Returns a pool of one TPU slice."""
    return {
        "pool": pool,
        "count": hosts,
        "labels": {
            "cloud.google.com/gke-tpu-accelerator": accelerator,
            "cloud.google.com/gke-tpu-topology": topology,
        },
        "taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}],
        "resources": {"google.com/tpu": str(chips)},
    }


def add_pools(world: World, pools: list[dict[str, Any]]) -> list[str]:
    """Adds nodes; returns their names."""
    names = []
    for pool in pools:
        for number in range(pool.get("count", 1)):
            name = f"{pool['pool']}-{number}"
            if world.store.get("nodes", "", name) is None:
                _add(world, pool, name)
            names.append(name)
    return names


def _add(world: World, pool: dict[str, Any], name: str) -> None:
    room = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
        **pool.get("resources", {}),
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "us-east5",
        "topology.kubernetes.io/zone": "us-east5-b",
        "cloud.google.com/gke-nodepool": pool["pool"],
        **pool.get("labels", {}),
    }
    node = world.create(
        "nodes",
        {
            "metadata": {"name": name, "labels": labels, "annotations": {}},
            "spec": {"providerID": f"gce://proj/us-east5-b/{name}", "taints": pool.get("taints", [])},
        },
    )

    def ready(obj: dict[str, Any]) -> None:
        obj["status"] = {
            "capacity": room,
            "allocatable": room,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.0-standin",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        }
        message = "kubelet is posting ready status"
        beat = {"lastHeartbeatTime": clock.seconds_text()}
        put(obj, "Ready", "True", "KubeletReady", message, **beat)

    world.set_status(("nodes", "", node["metadata"]["name"]), ready)


def lose(world: World, kubelet: Kubelet, name: str, *, deleted: bool) -> None:
    """Lets a node vanish; where it is deleted, its Node goes too, as GKE sees to for a machine that is gone."""
    kubelet.lose(name)
    since = str(clock.nanoseconds() / 1e9)
    world.set_status(("nodes", "", name), lambda obj: obj["metadata"]["annotations"].update({SILENT: since}))
    if deleted:
        world.store.remove(("nodes", "", name))
