"""What somebody set on things of an environment that its file says nothing of, and that costs, bars or deletes. Pure.

None of it is changed, for somebody may need it; all of it is told. What an API writes there by itself is not named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.cloud.things import value_at
from tasks.targets.environment_wanted import NAT, Kind, Wanted

_OF_GKE = ("google.com/tpu", "nvidia.com/gpu")
"""Taints that GKE gives nodes by itself."""


def _is_set(value: Any) -> bool:
    return bool(value)


@dataclass(frozen=True)
class _Field:
    """A field by its path, what people are told of it, and when it is told: `{}` stands for its value."""

    path: str
    told: str
    when: Callable[[Any], bool] = _is_set


def _none_of(*usual: Any) -> Callable[[Any], bool]:
    return lambda value: value not in (None, *usual)


_FIELDS: Mapping[Kind, tuple[_Field, ...]] = {
    "network": (_Field("mtu", "has packets of {} bytes (mtu)", _none_of(1460)),),
    "subnetwork": (
        _Field("logConfig.enable", "logs what flows through it, which costs (logConfig)"),
        _Field("stackType", "has more than IPv4 addresses ({})", _none_of("IPV4_ONLY")),
    ),
    "firewall": (_Field("logConfig.enable", "logs connections, which costs (logConfig)"),),
    "router": (_Field("bgpPeers", "has peers that it tells routes ({})"),),
    "bucket": (
        _Field("lifecycle.rule", "has lifecycle rules, which may delete objects ({})"),
        _Field(
            "retentionPolicy.retentionPeriod", "keeps objects from being deleted for {} s (retentionPolicy)"
        ),
        _Field("defaultEventBasedHold", "holds each new object: none can be deleted (defaultEventBasedHold)"),
        _Field(
            "softDeletePolicy.retentionDurationSeconds",
            "keeps nothing of what is deleted (softDeletePolicy)",
            lambda value: value is not None and not int(value),
        ),
        _Field("billing.requesterPays", "lets who reads pay (requesterPays): requests name a project then"),
        _Field("encryption.defaultKmsKeyName", "encrypts with {}: who has no use of that key reads nothing"),
        _Field("autoclass.enabled", "moves objects to other storage classes by itself (autoclass)"),
    ),
    "repository": (
        _Field("cleanupPolicies", "has cleanup policies, which may delete images ({})"),
        _Field("dockerConfig.immutableTags", "lets no tag be given to another image (immutableTags)"),
    ),
    "cluster": (
        _Field(
            "autoscaling.enable_node_autoprovisioning",
            "makes node pools by itself, which cost (node auto-provisioning)",
        ),
        _Field("vertical_pod_autoscaling.enabled", "changes what pods ask for (vertical pod autoscaling)"),
        _Field("maintenance_policy.window.maintenance_exclusions", "is not upgraded at times ({})"),
        _Field("maintenance_policy.window.recurring_window", "is upgraded in a window of its own ({})"),
        _Field("maintenance_policy.window.daily_maintenance_window.start_time", "is upgraded from {} on"),
        _Field("legacy_abac.enabled", "gives pods rights past its roles (legacy_abac)"),
        _Field("notification_config.pubsub.enabled", "tells others what happens to it ({})"),
    ),
    "node pool": (
        _Field(
            "config.taints",
            "bars pods that do not tolerate it ({})",
            lambda value: any(one.get("key") not in _OF_GKE for one in value or ()),
        ),
    ),
}


def unasked(one: Wanted, there: Mapping[str, Any]) -> Iterator[str]:
    """Yields what was set on one thing beside what is asked for, a line each."""
    for field in _FIELDS.get(one.kind, ()):
        if value_at(one.fields, field.path) is not None:
            continue  # compared as any other
        value = value_at(there, field.path)
        if field.when(value):
            yield f"{one} {field.told.format(_said(value))}: {_LEFT}"
    if one.kind == "router":
        yield from (f"{one} {line}: {_LEFT}" for line in _of_nats(there.get("nats") or ()))
    if one.kind == "subnetwork":
        asked = {each["rangeName"] for each in one.fields["secondaryIpRanges"]}
        more = [each for each in there.get("secondaryIpRanges") or () if each.get("rangeName") not in asked]
        yield from (
            f"{one} has a range {each.get('rangeName')} ({each.get('ipCidrRange')}): {_LEFT}" for each in more
        )


_LEFT = "not asked for, and left"


def _of_nats(nats: Any) -> Iterator[str]:
    for nat in nats:
        name = nat.get("name")
        if name != NAT:
            yield f"has a NAT {name} beside"
            continue
        if (nat.get("logConfig") or {}).get("enable"):
            yield f"logs connections of its NAT {name}"
        if nat.get("natIpAllocateOption") == "MANUAL_ONLY":
            yield f"lets nodes out by addresses of its own in its NAT {name}"
        if nat.get("enableDynamicPortAllocation") or nat.get("minPortsPerVm") not in (None, 64):
            yield f"gives machines ports in another way than usual in its NAT {name}"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
