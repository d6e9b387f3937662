"""Every GPU type wherever it may be asked for: GPUs of several hosts have networks, or a refusal names the fix."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from runtime.contract.errors import BadInput
from tasks.config.accelerators import _GPUS as GPUS
from tasks.config.accelerators import accelerator
from tasks.config.cluster import ClusterConfig
from tasks.config.gke_plain import plain
from tasks.config.gke_target import GkeTargetConfig
from tasks.targets import gke_cluster
from tasks.targets.cluster_requests import pool_request
from tests.tasks.targets.kube_made import made, pod_of

JOINED = sorted(name for name in GPUS if accelerator(name).gpu_direct is not None)
HOSTS: list[dict[str, Any]] = [{"nodes": 2, "slices": 1}, {"slices": 2}]
NETWORKS = [f"vpc{number}" for number in range(1, 10)]
VARIABLES = {
    "tcpx": {"USE_GPUDIRECT": "tcpx", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
    "tcpxo": {"USE_GPUDIRECT": "tcpxo", "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices"},
    "rdma": {"USE_GPUDIRECT": "rdma", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
}


def target(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "gke", "type": name, "context": "c", **fields}


def on_made(name: str, **fields: Any) -> dict[str, Any]:
    place = {"name": "c", "project": "p", "location": "us-central1-a"}
    return {"kind": "gke", "type": name, "cluster": place, **fields}


@pytest.mark.parametrize("name", sorted(GPUS))
@pytest.mark.parametrize("fields", HOSTS)
@pytest.mark.parametrize("where", [target, on_made])
def test_runs_and_workloads_name_networks_or_say_that_they_need_none(
    name: str, fields: dict[str, Any], where: Any
) -> None:
    asked = where(name, **fields)
    if name not in JOINED:
        GkeTargetConfig.model_validate(asked)
        return
    with pytest.raises(
        ValidationError, match=r"GPUs of 2 hosts .* name the cluster's networks in gpu_networks, or"
    ):
        GkeTargetConfig.model_validate(asked)
    assert plain(asked) is None, "what is read without the model goes through it where something is wrong"
    GkeTargetConfig.model_validate({**asked, "gpu_networks": []})


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("fields", HOSTS)
def test_pods_have_interfaces_and_variables(name: str, fields: dict[str, Any]) -> None:
    pod = pod_of(made({"type": name, "gpu_networks": NETWORKS, **fields}))
    interfaces = json.loads(pod["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert [one["network"] for one in interfaces] == ["default", *NETWORKS]
    direct = accelerator(name).gpu_direct
    assert direct is not None
    variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert VARIABLES[direct].items() <= variables.items()


@pytest.mark.parametrize("name", JOINED)
def test_clusters_that_runs_make_have_none_of_the_networks_that_are_named(name: str) -> None:
    named = GkeTargetConfig.model_validate(on_made(name, nodes=2, slices=1, gpu_networks=NETWORKS))
    with pytest.raises(BadInput, match="has none of the networks that gpu_networks names"):
        gke_cluster.made_as(named)
    without = GkeTargetConfig.model_validate(on_made(name, nodes=2, slices=1, gpu_networks=[]))
    if accelerator(name).arm:
        with pytest.raises(BadInput, match="one NVLink domain"):
            gke_cluster.made_as(without)
    else:
        assert gke_cluster.made_as(without).gpu_networks == "none"


@pytest.mark.parametrize("name", sorted(GPUS))
@pytest.mark.parametrize("nodes", [1, 2, 8])
def test_clusters_have_networks_for_their_gpus_or_are_refused(name: str, nodes: int) -> None:
    """`cluster create`, and `cluster resize`, which reads the same model with another number."""
    shape = accelerator(name)
    fields = {"zone": "us-central1-a", "type": name, "nodes": nodes}
    if shape.arm or (nodes > 1 and shape.gpu_direct in ("tcpx", "tcpxo")):
        with pytest.raises(ValidationError, match="Cluster Toolkit"):
            ClusterConfig.model_validate(fields)
        return
    config = ClusterConfig.model_validate(fields)
    networks = pool_request("np-0", config, shape, {}).get("network_config")
    assert networks == ({"accelerator_network_profile": "auto"} if shape.gpu_direct == "rdma" else None)
