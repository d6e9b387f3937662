"""What users of Orbax's TPU VM scripts can ask for has a place here, and each changes what Cloud TPU is asked."""
# ruff: noqa: F401, F811 (fixtures are imported)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from flows.cli.main import main
from tests.cloud.tpu.running import Cloud, tpu_cloud, tpu_server
from tests.flows.cli.test_tpu import quick

PLAIN = ("--type", "v6e-4", "--zone", "us-east5-b")
RESERVATION = "projects/proj/locations/us-east5-b/reservations/r"
PARENT = "projects/proj/locations/us-east5-b"
SPEC = "queued_resource.tpu.node_spec.0"

# there → the words here, the call they lead to, and what stands where in its request.
ROWS: Mapping[str, tuple[tuple[str, ...], str, Mapping[str, Any]]] = {
    "--tpu-name": (PLAIN, "CreateNode", {"node_id": "mine"}),
    "--type": (("--type", "v6e-16", *PLAIN[2:]), "CreateNode", {"node.accelerator_type": "v6e-16"}),
    "--zone": ((*PLAIN[:3], "us-east5-a"), "CreateNode", {"parent": "projects/proj/locations/us-east5-a"}),
    "--project": (
        (*PLAIN, "--project", "other"), "CreateNode", {"parent": "projects/other/locations/us-east5-b"},
    ),
    "--version": (
        (*PLAIN, "--version", "tpu-ubuntu2204-base"), "CreateNode",
        {"node.runtime_version": "tpu-ubuntu2204-base"},
    ),
    "no --version: as the type needs": (PLAIN, "CreateNode", {"node.runtime_version": "v2-alpha-tpuv6e"}),
    "--node-count 2: two slices of the type": (
        (*PLAIN, "--slices", "2"), "CreateQueuedResource",
        {f"{SPEC}.multislice_params.node_count": 2, f"{SPEC}.node.accelerator_type": "v6e-4"},
    ),
    "--queued": (
        (*PLAIN, "--queued"), "CreateQueuedResource", {"queued_resource_id": "mine", f"{SPEC}.node_id": "mine"},
    ),
    "--spot": ((*PLAIN, "--tier", "spot"), "CreateNode", {"node.scheduling_config.spot": True}),
    "--spot of a queued resource": (
        (*PLAIN, "--tier", "spot", "--queued"), "CreateQueuedResource", {"queued_resource.spot": {}},
    ),
    "on demand": ((*PLAIN, "--queued"), "CreateQueuedResource", {"queued_resource.guaranteed": {}}),
    "a reservation": (
        (*PLAIN, "--tier", "reserved", "--reservation", RESERVATION), "CreateQueuedResource",
        {"queued_resource.reservation_name": RESERVATION},
    ),
    "in the future": (
        (*PLAIN, "--valid-after", "2030-01-02T03:04:05Z"), "CreateQueuedResource",
        {"queued_resource.queueing_policy.valid_after_time": "2030-01-02T03:04:05Z"},
    ),
    "only until then": (
        (*PLAIN, "--valid-until", "2030-01-02T03:04:05Z"), "CreateQueuedResource",
        {"queued_resource.queueing_policy.valid_until_time": "2030-01-02T03:04:05Z"},
    ),
    "a network": (
        (*PLAIN, "--network", "n", "--subnetwork", "s"), "CreateNode",
        {"node.network_config.network": "n", "node.network_config.subnetwork": "s"},
    ),
    "external addresses": (PLAIN, "CreateNode", {"node.network_config.enable_external_ips": True}),
    "internal addresses": (
        (*PLAIN, "--internal"), "CreateNode", {"node.network_config.enable_external_ips": None},
    ),
    "a service account": (
        (*PLAIN, "--service-account", "a@b.c"), "CreateNode", {"node.service_account.email": "a@b.c"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("there", ROWS)
def test_a_flag_changes_the_request(tpu_cloud: Cloud, there: str) -> None:
    words, method, wanted = ROWS[there]
    tpu_cloud.set(projects=["proj", "other"], reservations=[RESERVATION])
    assert main(["tpu", "create", "mine", *words, "--no-wait"]) == 0
    [asked] = tpu_cloud.mutations()
    assert asked["method"] == method
    for path, value in wanted.items():
        assert at(asked["request"], path) == value, asked["request"]


def at(request: Any, path: str) -> Any:
    """Returns what stands at a dotted path; None where nothing does."""
    for step in path.split("."):
        request = request[int(step)] if isinstance(request, list) else request.get(step)
        if request is None:
            return None
    return request
