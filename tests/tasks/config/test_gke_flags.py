"""Every flag of the launcher on GKE and of xpk's workloads has its place here, which docs/migration.md names: a field
of a target that changes what is asked of the cluster, a flag of `run`, or a word on why not yet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tasks.config.request import RunRequest
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
    "--custom_cluster_arguments": "not yet",
    "--enable_tpu_autolock": {"queue": None, "lock": True},
    "--cpu_limit": "not yet",
    "--memory_limit": "not yet",
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
    "--private": "not yet",
    "--authorized_networks": "not yet",
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

_NEAREST: dict[str, dict[str, Any]] = {"cluster": {"cluster": CLUSTER}, "pathways": {"pathways": PATHWAYS}}


@pytest.mark.parametrize(("flag", "place"), [*LAUNCHER.items(), *WORKLOADS.items()])
def test_what_a_flag_asked_for_is_asked_of_the_cluster(flag: str, place: dict[str, Any] | str) -> None:
    if isinstance(place, str):
        where, _, name = place.partition(": ")
        assert (
            where in ("not yet", "suite")
            or name in {"run": RunRequest.model_fields, "field": ("image",)}[where]
        )
        return
    without = next((base for part, base in _NEAREST.items() if part in place and part not in flag), {})
    if place == without:  # the flag is the part itself
        without = {}
    assert asked(place) != asked(without)
    for name in place:
        assert any(name == field.partition(".")[0] for field in FIELDS)


@pytest.mark.parametrize(("flag", "place"), [*LAUNCHER.items(), *WORKLOADS.items()])
def test_docs_say_where_a_flag_went(flag: str, place: dict[str, Any] | str) -> None:
    rows = [line for line in DOCS.read_text().splitlines() if re.search(rf"^\|[^|]*`[^|`]*{flag}\b", line)]
    assert rows, f"docs/migration.md has no row for {flag}"
    told = " ".join(row.split("|", 2)[2] for row in rows)
    if isinstance(place, dict):
        names = [
            inner for name in place for inner in (place[name] if isinstance(place[name], dict) else [name])
        ]
        assert any(re.search(rf"\b{name}\b", told) for name in (*place, *names)), told
    elif place == "not yet":
        assert "not yet" in told
    else:
        name = place.partition(": ")[2]
        assert name in told or name.replace("_", "-") in told
