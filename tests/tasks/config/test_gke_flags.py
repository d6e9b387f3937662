"""Every flag of the launcher on GKE and of xpk's workloads has its place here, which docs/migration.md names: a field
of a target that changes what is asked of the cluster, or a flag of `run`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from flows.cli.cluster_create import create
from flows.cli.cluster_groups import GROUPS
from tasks.config import size
from tasks.config.cluster import ClusterConfig
from tasks.config.gke_place import ClusterPlace
from tasks.config.request import RunRequest
from tasks.targets.cluster_requests import cluster_request, pool_request
from tasks.targets.kube_queues import flavors
from tasks.targets.kube_room import Each, Held
from tests.tasks.config.test_gke_target import CLUSTER, DUMP, FIELDS, asked
from tests.tasks.targets.kube_made import PATHWAYS

DOCS = Path(__file__).parents[3] / "docs" / "migration.md"

LAUNCHER: dict[str, dict[str, Any] | str] = {
    "--cluster_name": {"cluster": {**CLUSTER, "name": "other"}},
    "--tpu_type": {"type": "v6e-16"},
    "--device_type": {"type": "l4-8", "nodes": 2},
    "--num_slices": {"slices": 3},
    "--zone": {"cluster": {**CLUSTER, "location": "us-east5-b"}},
    "--project": {"cluster": {**CLUSTER, "project": "other"}},
    "--create_cluster": {"cluster": {**CLUSTER, "create": "never"}},
    "--delete_cluster_on_completion": "run: keep",
    "--custom_cluster_arguments": {"make": {"cluster_fields": {"description": "ours"}}},
    "--enable_tpu_autolock": {"queue": None, "lock": True},
    "--cpu_limit": {"make": {"queueing": {"cpu_limit": 112}}},
    "--memory_limit": {"make": {"queueing": {"memory_limit": "192GiB"}}},
    "--spot": {"cluster": {**CLUSTER, "capacity": "spot"}},
    "--on_demand": {"cluster": {**CLUSTER, "capacity": "on_demand"}},
    "--reservation": {"cluster": {**CLUSTER, "capacity": "reservation", "reservations": "r"}},
    "--priority": {"priority": "very-high"},
    "--scheduler": {"scheduler": "kueue"},
    "--max_restarts": {"max_restarts": 3},
    "--config_file": "run: suite",
    "--output_directory": "run: output",
    "--docker_image": "field: image",
    "--docker_name": {"container_name": "jax-tpu"},
    "--env": "run: env",
    "--env_file": "run: env_file",
    "--ramdisk_directory": {"ramdisk": {"directory": "/local"}},
    "--sa": {"service_account": "sa"},
    "--private": {"make": {"private": True}},
    "--authorized_networks": {"make": {"authorized_networks": ["203.0.113.0/24"]}},
    "--verbose": "run: verbose",
    "--skip_preflight_checks": "run: skip_preflight",
    "--restart_on_user_code_failure": {"max_restarts": 1, "restart_on_user_code_failure": True},
    "--enable_ops_agent": {"ops_agent": {}},
    "--debug_dump_gcs": {"debug_dump": DUMP},
    "--wait": {"wait": False, "limits": {"workload_s": 60}},
    "--workload_name": {"workload_name": "mine"},
    "--run_name": "run: run_id",
    "--enable_pathways": {"pathways": PATHWAYS},
    "--pathways_server_image": {"pathways": {**PATHWAYS, "server_image": "s:1"}},
    "--pathways_proxy_image": {"pathways": {**PATHWAYS, "proxy_image": "p:1"}},
    "--test_restart_workflow": "suite: disruption",
}
"""Orbax's launch_xpk.py."""

WORKLOADS: dict[str, dict[str, Any] | str] = {
    "--workload": {"workload_name": "mine"},
    "--cluster": {"cluster": {**CLUSTER, "name": "other"}},
    "--tpu-type": {"type": "v6e-16"},
    "--device-type": {"type": "n2-standard-32-2"},
    "--num-slices": {"slices": 3},
    "--num-nodes": {"type": "l4-8", "nodes": 4},
    "--priority": {"priority": "low"},
    "--scheduler": {"scheduler": "kueue"},
    "--namespace": {"namespace": "n"},
    "--docker-image": "field: image",
    "--docker-name": {"container_name": "jax-tpu"},
    "--docker-image-pull-secret": {"image_pull_secret": "s"},
    "--env-file": "run: env_file",
    "--debug-dump-gcs": {"debug_dump": DUMP},
    "--max-restarts": {"max_restarts": 3},
    "--restart-on-exit-codes": {"max_restarts": 3, "restart_exit_codes": "1,3-5"},
    "--termination-grace-period-seconds": {"limits": {"termination_grace_s": 90}},
    "--ttl-seconds-after-finished": {"limits": {"ttl_s": 60}},
    "--ramdisk-directory": {"ramdisk": {"directory": "/local"}},
    "--mtc-enabled": {"ramdisk": {"by": "multi_tier"}},
    "--use-parallel-containers": {"containers_per_host": 2},
    "--headless": {"pathways": {**PATHWAYS, "headless": True}, "limits": {"workload_s": 60}},
    "--server-image": {"pathways": {**PATHWAYS, "server_image": "s:1"}},
    "--proxy-server-image": {"pathways": {**PATHWAYS, "proxy_image": "p:1"}},
    "--colocated-python-sidecar-image": {"pathways": {**PATHWAYS, "colocated_python_image": "c:1"}},
    "--elastic-slices": {"pathways": {**PATHWAYS, "elastic_slices": 1}},
    "--max-slice-restarts": {"pathways": {**PATHWAYS, "elastic_slices": 1, "max_slice_restarts": 2}},
    "--pathways-gcs-location": {"pathways": {**PATHWAYS, "scratch": "gs://bucket/s"}},
}
"""xpk workload create, create-pathways."""

CLUSTERS: dict[str, dict[str, Any] | str] = {
    "--cluster": "name",
    "--tpu-type": {"type": "v6e-16"},
    "--device-type": {"type": "l4-8", "zone": "us-central1-a"},
    "--num-slices": {"slices": 3},
    "--num-nodes": {"type": "l4-8", "zone": "us-central1-a", "nodes": 2},
    "--zone": {"zone": "us-west4-a"},
    "--on-demand": {"capacity": "on_demand"},
    "--spot": {"capacity": "spot"},
    "--reservation": {"reservations": "projects/p/reservations/r"},
    "--flex": {"capacity": "flex_start"},
    "--custom-cluster-arguments": {"cluster_fields": {"description": "ours"}},
    "--custom-tpu-nodepool-arguments": {"pool_fields": {"config.labels.a": "b"}},
    "--custom-nodepool-arguments": {"pool_fields": {"config.labels.a": "b"}},
    "--cluster-cpu-machine-type": {"cpu_pool": {"machine_type": "n2-standard-8"}},
    "--default-pool-cpu-machine-type": {"cpu_pool": {"machine_type": "n2-standard-8"}},
    "--default-pool-cpu-num-nodes": {"cpu_pool": {"nodes": 6}},
    "--gke-version": {"version": "1.33"},
    "--private": {"private": True},
    "--authorized-networks": {"authorized_networks": "203.0.113.0/24"},
    "--enable-workload-identity": {"workload_identity": True},
    "--enable-autoprovisioning": {"slices": 0, "autoprovision": 16},
    "--autoprovisioning-max-chips": {"slices": 0, "autoprovision": 32},
    "--enable-gcsfuse-csi-driver": {
        "cluster_fields": {"addons_config.gcs_fuse_csi_driver_config.enabled": "false"}
    },
    "--enable-lustre-csi-driver": {
        "cluster_fields": {"addons_config.lustre_csi_driver_config.enabled": "true"}
    },
    "--enable-mtc": {"cluster_fields": {"addons_config.high_scale_checkpointing_config.enabled": "true"}},
    "--force": "force",
    "--project": "project",
    "--dry-run": "dry_run",
}
"""xpk cluster create: fields of a cluster, or what the command itself does with them."""

FLAG_OF = {
    "reservations": "reservation",
    "cluster_fields": "cluster_field",
    "pool_fields": "pool_field",
    "authorized_networks": "authorized_network",
}
"""Flags of `cluster create` that are called otherwise than their fields: those that are given many times."""

_NEAREST: dict[str, dict[str, Any]] = {"cluster": {"cluster": CLUSTER}, "pathways": {"pathways": PATHWAYS}}


@pytest.mark.parametrize(("flag", "place"), [*LAUNCHER.items(), *WORKLOADS.items()])
def test_what_a_flag_asked_for_is_asked_of_the_cluster(flag: str, place: dict[str, Any] | str) -> None:
    if isinstance(place, str):
        where, _, name = place.partition(": ")
        assert where == "suite" or name in {"run": RunRequest.model_fields, "field": ("image",)}[where]
        return
    if "make" in place:
        made = ClusterPlace.model_validate({**CLUSTER, **place}).make_fields
        assert asked_of_gke(made) != asked_of_gke({})
        return
    without = next((base for part, base in _NEAREST.items() if part in place and part not in flag), {})
    if place == without:  # the flag is the part itself
        without = {}
    assert asked(place) != asked(without)
    for name in place:
        assert any(name == field.partition(".")[0] for field in FIELDS)


def asked_of_gke(fields: Mapping[str, Any]) -> Any:
    """Returns what GKE is asked for, for a cluster with such fields, and the quota of the queue in it."""
    config = ClusterConfig.model_validate({"zone": "us-east5-b", "type": "v5litepod-16", **fields})
    assert config.shape is not None
    pool = pool_request("np-0", config, config.shape, {})
    held, memory = [Held(config.shape, config.machines)], config.queueing.memory_limit
    in_bytes = size.in_bytes(memory) if memory else None
    quota = flavors(
        held, {config.shape.machine_type: Each(1000, 1 << 42)}, config.queueing.cpu_limit, in_bytes
    )
    return cluster_request("c", config, "p", {}), [pool] * config.slices, quota


@pytest.mark.parametrize(("flag", "place"), CLUSTERS.items())
def test_what_a_flag_of_clusters_asked_for_is_asked_of_gke(flag: str, place: dict[str, Any] | str) -> None:
    taken = {one.name for group in GROUPS for one in fields(group)} | {*inspect.signature(create).parameters}
    if isinstance(place, str):
        assert place in taken
        return
    without = {"slices": 0, "autoprovision": 8} if "autoprovision" in place else {}
    assert place == {"capacity": "on_demand"} or asked_of_gke(place) != asked_of_gke(without)
    names = {FLAG_OF.get(name, name) for name in place if name != "cpu_pool"}
    names |= {f"cpu_{name}" for name in place.get("cpu_pool", {})}
    assert names <= {*taken}


@pytest.mark.parametrize(("flag", "place"), [*LAUNCHER.items(), *WORKLOADS.items(), *CLUSTERS.items()])
def test_docs_say_where_a_flag_went(flag: str, place: dict[str, Any] | str) -> None:
    rows = [line for line in DOCS.read_text().splitlines() if re.search(rf"^\|[^|]*`[^|`]*{flag}\b", line)]
    assert rows, f"docs/migration.md has no row for {flag}"
    told = " ".join(row.split("|", 2)[2] for row in rows)
    if isinstance(place, dict):
        names = [
            inner for name in place for inner in (place[name] if isinstance(place[name], dict) else [name])
        ]
        said = told.replace("-", "_")
        names += [FLAG_OF[name] for name in place if name in FLAG_OF]
        names += [f"cpu_{name}" for name in place.get("cpu_pool", {})]
        assert any(re.search(rf"(?<![a-z]){name}(?![a-z])", said) for name in (*place, *names)), told
    else:
        name = place.partition(": ")[2] or place
        assert name in told or name.replace("_", "-") in told
