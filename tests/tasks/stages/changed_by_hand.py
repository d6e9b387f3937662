"""For tests of environments: what somebody changes by hand in the project, and what a plan shows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tasks.stages.environment_plan import Plan


def steps(planned: Plan) -> list[str]:
    """Returns what would be done, with the fields that differ."""
    told = [f"{step}{''.join(f' [{one}]' for one in step.differences)}" for step in planned.steps]
    some = [one for one, step in zip(told, planned.steps, strict=True) if step.do not in ("keep", "use")]
    return [
        *some,
        *planned.cluster,
        *(f"{what} [{one}]" for what, each in planned.differs.items() for one in each),
    ]


def changed_in(kind: str, ends: str, **fields: Any) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        [thing] = [one for name, one in state["project"][kind].items() if name.endswith(ends)]
        thing.update(fields)

    return change


def taken_away(kind: str, ends: str) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        [name] = [one for one in state["project"][kind] if one.endswith(ends)]
        del state["project"][kind][name]

    return change


def nobody_may(ends: str) -> Callable[[Any], None]:
    """Takes all roles on one thing from whoever has them."""

    def change(state: Any) -> None:
        [policy] = [one for name, one in state["project"]["policies"].items() if name.endswith(ends)]
        policy["bindings"] = []

    return change


def without_slices(state: Any) -> None:
    [cluster] = state["clusters"].values()
    del cluster["pools"]["tpu-node-pool-0"]


HAND_MADE: list[tuple[Callable[[Any], None], str]] = [
    (
        changed_in("firewalls", "allow-iap", sourceRanges=["0.0.0.0/0"]),
        'change firewall net-allow-iap [sourceRanges: ["0.0.0.0/0"] → ["35.235.240.0/20"]]',
    ),
    (
        changed_in("firewalls", "allow-iap", disabled=True, priority=7, targetTags=["ssh"]),
        "change firewall net-allow-iap [disabled: true → false] [priority: 7 → 1000] "
        '[targetTags: ["ssh"] → []]',
    ),
    (
        changed_in(
            "firewalls", "allow-iap", allowed=[{"IPProtocol": "tcp", "ports": ["22"]}, {"IPProtocol": "all"}]
        ),
        'change firewall net-allow-iap [allowed: [{"IPProtocol": "tcp", "ports": ["22"]}, {"IPProtocol": "all"}] → '
        '[{"IPProtocol": "tcp", "ports": ["22"]}]]',
    ),
    (
        changed_in("subnetworks", "sub", privateIpGoogleAccess=False),
        "change subnetwork sub [privateIpGoogleAccess: false → true]",
    ),
    (
        changed_in("accounts", "gke-sa@proj.iam.gserviceaccount.com", displayName="mine"),
        'change service account gke-sa [displayName: "mine" → "nodes of mine"]',
    ),
    (
        changed_in("accounts", "gke-sa@proj.iam.gserviceaccount.com", disabled=True),
        "change service account gke-sa [disabled: true → false]",
    ),
    (
        changed_in("buckets", "artifacts", storageClass="COLDLINE"),
        'change bucket artifacts [storageClass: "COLDLINE" → "STANDARD"]',
    ),
    (
        changed_in("routers", "net-router", nats=[]),
        'change router net-router [nats.0.name: nothing → "nat"] '
        '[nats.0.natIpAllocateOption: nothing → "AUTO_ONLY"] '
        '[nats.0.sourceSubnetworkIpRangesToNat: nothing → "ALL_SUBNETWORKS_ALL_IP_RANGES"]',
    ),
    (
        lambda state: state["project"]["policies"]["projects/proj"].update(
            bindings=[
                one
                for one in state["project"]["policies"]["projects/proj"]["bindings"]
                if "metric" not in one["role"]
            ]
        ),
        "make role roles/monitoring.metricWriter for serviceAccount:gke-sa@proj.iam.gserviceaccount.com",
    ),
    (
        changed_in("networks", "net", routingConfig={"routingMode": "GLOBAL"}),
        'change network net [routingConfig.routingMode: "GLOBAL" → "REGIONAL"]',
    ),
    (taken_away("firewalls", "allow-iap"), "make firewall net-allow-iap"),
    (taken_away("routers", "net-router"), "make router net-router"),
    (taken_away("repositories", "ml-images"), "make repository ml-images"),
    (taken_away("tensorboards", ""), "make tensorboard mine"),
    (
        nobody_may("cloud-tpu-sa@proj.iam.gserviceaccount.com"),
        "make account role roles/iam.workloadIdentityUser for "
        "serviceAccount:proj.svc.id.goog[tpu-training/cloud-tpu-sa]",
    ),
    (without_slices, "make pool tpu-node-pool-0"),
]
