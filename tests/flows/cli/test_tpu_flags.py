"""What users of Orbax's TPU VM scripts can ask for has a place here, and each changes what Cloud TPU is asked."""
# ruff: noqa: F401 (fixtures are imported)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from flows.cli.main import app, main
from flows.cli.tpu_workers import LoginFlags
from tasks.cloud.tpu import CloudTpu
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.leases.claim import claim
from tasks.targets.tpu_capacity import Desk
from tests.cloud.tpu.leasing import QUICK, a_ledger, quick_inventories
from tests.cloud.tpu.running import Cloud
from tests.flows.cli.test_tpu import quick

PLAIN = ("--type", "v6e-4", "--zone", "us-east5-b")
RESERVATION = "projects/proj/locations/us-east5-b/reservations/r"
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


# What a target file says → the call it leads to, and what stands where in its request.
FIELDS: Mapping[str, tuple[Mapping[str, Any], str, Mapping[str, Any]]] = {
    "type": ({"type": "v6e-16"}, "CreateNode", {"node.accelerator_type": "v6e-16"}),
    "slices": ({"slices": 2}, "CreateQueuedResource", {f"{SPEC}.multislice_params.node_count": 2}),
    "queued": ({"queued": True}, "CreateQueuedResource", {f"{SPEC}.node.accelerator_type": "v6e-4"}),
    "tier": ({"tier": "spot"}, "CreateNode", {"node.scheduling_config.spot": True}),
    "reservation": (
        {"tier": "reserved", "reservation": RESERVATION}, "CreateQueuedResource",
        {"queued_resource.reservation_name": RESERVATION},
    ),
    "valid_after": (
        {"valid_after": "2030-01-02T03:04:05Z"}, "CreateQueuedResource",
        {"queued_resource.queueing_policy.valid_after_time": "2030-01-02T03:04:05Z"},
    ),
    "valid_until": (
        {"valid_until": "2030-01-02T03:04:05Z"}, "CreateQueuedResource",
        {"queued_resource.queueing_policy.valid_until_time": "2030-01-02T03:04:05Z"},
    ),
    "runtime_version": (
        {"runtime_version": "tpu-ubuntu2204-base"}, "CreateNode",
        {"node.runtime_version": "tpu-ubuntu2204-base"},
    ),
    "network": (
        {"network": "n", "subnetwork": "s"}, "CreateNode",
        {"node.network_config.network": "n", "node.network_config.subnetwork": "s"},
    ),
    "service_account": ({"service_account": "a@b.c"}, "CreateNode", {"node.service_account.email": "a@b.c"}),
    "tags": ({"tags": ["ssh-here"]}, "CreateNode", {"node.tags": ["ssh-here"]}),
    "addresses: external": ({}, "CreateNode", {"node.network_config.enable_external_ips": True}),
    "addresses: internal": (
        {"addresses": "internal"}, "CreateNode", {"node.network_config.enable_external_ips": None},
    ),
    "addresses: iap": ({"addresses": "iap"}, "CreateNode", {"node.network_config.enable_external_ips": None}),
}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_a_target_changes_the_request(tpu_cloud: Cloud, field: str) -> None:
    fields, method, wanted = FIELDS[field]
    tpu_cloud.set(reservations=[RESERVATION])
    config = TpuVmTargetConfig.model_validate(
        {"kind": "tpu_vm", "type": "v6e-4", "zones": "us-east5-b", **fields}
    )
    ledger = a_ledger()
    holding = claim(ledger, quick_inventories(ledger), "run-1", "run-1")
    Desk(CloudTpu("proj", timing=QUICK), config, holding).ask("us-east5-b")
    [asked] = tpu_cloud.mutations()
    assert asked["method"] == method
    for path, value in wanted.items():
        assert at(asked["request"], path) == value, asked["request"]


# there → the words here, and what the command is called with. What each then does: test_tpu_update, test_tpu_workers.
COMMANDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "--setup-script S": (("update", "n", "--setup", "s.sh"), {"setup": ("s.sh",)}),
    "--update --branch B": (("update", "n", "--branch", "b"), {"branch": "b"}),
    "--update --pr N": (("update", "n", "--pr", "7"), {"pr": 7}),
    "--update --repo-url U": (("update", "n", "--repo", "https://h/f"), {"repo": "https://h/f"}),
    "--jax-version": (("update", "n", "--jax-version", "0.9.0"), {"jax_version": "0.9.0"}),
    "--command C": (("exec", "n", "--", "uname", "-r"), {"command": ("uname", "-r")}),
    "on some workers": (("exec", "n", "--worker", "1", "--", "ls"), {"worker": (1,)}),
    "--discover-only": (("discover", "n"), {"name": "n"}),
    "interactive ssh": (("ssh", "n", "--worker", "3"), {"worker": 3}),
    "apt lock wait": (("update", "n", "--locks", "60s"), {"locks": "60s"}),
    "delete": (("delete", "n"), {"name": "n"}),
    "status": (("status", "n", "--zone", "z"), {"name": "n", "zone": "z"}),
    "list": (("list", "--project", "p"), {"project": "p"}),
    "--internal-ip": (("ssh", "n", "--internal"), {"login": LoginFlags(internal=True)}),
    "--tunnel-through-iap": (("ssh", "n", "--iap"), {"login": LoginFlags(iap=True)}),
    "another user and key": (
        ("exec", "n", "--user", "u", "--key", "k", "--port", "2", "--", "ls"),
        {"login": LoginFlags(user="u", key="k", port=2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("there", COMMANDS)
def test_what_is_asked_of_a_tpu_that_is_there_is_heard(there: str) -> None:
    words, wanted = COMMANDS[there]
    _, bound, _ = app.parse_args(["tpu", *words], exit_on_error=False, print_error=False)
    assert {name: bound.arguments[name] for name in wanted} == wanted


def at(request: Any, path: str) -> Any:
    """Returns what stands at a dotted path; None where nothing does."""
    for step in path.split("."):
        request = request[int(step)] if isinstance(request, list) else request.get(step)
        if request is None:
            return None
    return request
