"""What somebody set beside what a file asks for is told, thing by thing; what APIs write there themselves is not."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.targets.environment_unasked import _FIELDS, unasked
from tasks.targets.environment_wanted import Kind, Wanted, wanted
from tests.cloud.project.leasing import environment

USUAL: dict[Kind, dict[str, Any]] = {
    "network": {"mtu": 1460},
    "subnetwork": {"logConfig": {"enable": False}, "stackType": "IPV4_ONLY", "secondaryIpRanges": [
        {"rangeName": "pods", "ipCidrRange": "192.168.64.0/20"},
        {"rangeName": "services", "ipCidrRange": "192.168.80.0/20"},
    ]},
    "router": {"nats": [{"name": "nat", "minPortsPerVm": 64, "logConfig": {"enable": False, "filter": "ALL"}}]},
    "bucket": {"softDeletePolicy": {"retentionDurationSeconds": "604800"}, "autoclass": {"enabled": False}},
    "cluster": {"maintenance_policy": {"resource_version": "a"}, "autoscaling": {}},
    "node pool": {"config": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NO_SCHEDULE"}]}},
}  # fmt: skip

SET: list[tuple[Kind, str, Any, str]] = [
    ("network", "mtu", 8896, "network net has packets of 8896 bytes (mtu)"),
    ("subnetwork", "logConfig.enable", True, "subnetwork sub logs what flows through it, which costs"),
    ("subnetwork", "stackType", "IPV4_IPV6", "subnetwork sub has more than IPv4 addresses (IPV4_IPV6)"),
    ("subnetwork", "secondaryIpRanges", [{"rangeName": "mine", "ipCidrRange": "172.16.0.0/24"}],
     "subnetwork sub has a range mine (172.16.0.0/24)"),
    ("firewall", "logConfig.enable", True, "firewall net-allow-iap logs connections, which costs"),
    ("router", "bgpPeers", [{"name": "p"}], 'router net-router has peers that it tells routes ([{"name": "p"}])'),
    ("router", "nats", [{"name": "mine"}], "router net-router has a NAT mine beside"),
    ("router", "nats", [{"name": "nat", "logConfig": {"enable": True}}], "logs connections of its NAT nat"),
    ("router", "nats", [{"name": "nat", "minPortsPerVm": 256}], "gives machines ports in another way"),
    ("bucket", "lifecycle.rule", [{"action": {"type": "Delete"}}], "bucket artifacts has lifecycle rules, which may"),
    ("bucket", "retentionPolicy.retentionPeriod", "9", "bucket artifacts keeps objects from being deleted for 9 s"),
    ("bucket", "defaultEventBasedHold", True, "bucket artifacts holds each new object"),
    ("bucket", "softDeletePolicy.retentionDurationSeconds", "0", "bucket artifacts keeps nothing of what is deleted"),
    ("bucket", "billing.requesterPays", True, "bucket artifacts lets who reads pay"),
    ("bucket", "encryption.defaultKmsKeyName", "k", "bucket artifacts encrypts with k"),
    ("bucket", "autoclass.enabled", True, "bucket artifacts moves objects to other storage classes"),
    ("repository", "cleanupPolicies", {"old": {"action": "DELETE"}}, "repository ml-images has cleanup policies"),
    ("repository", "dockerConfig.immutableTags", True, "repository ml-images lets no tag be given to another image"),
    ("cluster", "autoscaling.enable_node_autoprovisioning", True, "cluster mine makes node pools by itself"),
    ("cluster", "vertical_pod_autoscaling.enabled", True, "cluster mine changes what pods ask for"),
    ("cluster", "maintenance_policy.window.maintenance_exclusions", {"freeze": {}}, "cluster mine is not upgraded at"),
    ("cluster", "maintenance_policy.window.recurring_window", {"a": 1}, "cluster mine is upgraded in a window of"),
    ("cluster", "maintenance_policy.window.daily_maintenance_window.start_time", "05:00", "is upgraded from 05:00 on"),
    ("cluster", "legacy_abac.enabled", True, "cluster mine gives pods rights past its roles"),
    ("cluster", "notification_config.pubsub.enabled", True, "cluster mine tells others what happens to it"),
    ("node pool", "config.taints", [{"key": "mine"}], 'node pool cpu bars pods that do not tolerate it ([{"key":'),
]  # fmt: skip


def thing(kind: Kind) -> Wanted:
    return next(one for one in wanted(environment(), "proj") if one.kind == kind)


@pytest.mark.parametrize("kind", _FIELDS)
def test_what_is_there_by_itself_is_not_told(kind: Kind) -> None:
    one = thing(kind)
    assert list(unasked(one, one.fields)) == []
    assert list(unasked(one, USUAL.get(kind, {}))) == []


@pytest.mark.parametrize(("kind", "path", "value", "told"), SET)
def test_what_somebody_set_is_told(kind: Kind, path: str, value: Any, told: str) -> None:
    there: Any = value
    for part in reversed(path.split(".")):
        there = {part: there}
    [line] = unasked(thing(kind), there)
    assert told in line and line.endswith(": not asked for, and left")


def test_each_field_that_is_looked_at_is_among_those_above() -> None:
    assert {(kind, one.path) for kind, fields in _FIELDS.items() for one in fields} <= {
        (kind, path) for kind, path, _, _ in SET
    }


def test_what_the_file_asks_for_is_no_news() -> None:
    cluster = {"name": "mine", "private": True, "maintenance": "05:00"}
    [one] = [one for one in wanted(environment(cluster=cluster), "proj") if one.kind == "cluster"]
    assert list(unasked(one, one.fields)) == []
