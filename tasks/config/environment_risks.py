"""What an environment's file may say and should not without a thought; what it may not, as it would break things."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from tasks.config.environment_parts import Accounts, ControlPlane, Network, Team

_MIGHTY = re.compile(
    r"^roles/(owner|editor|.*[aA]dmin|iam\.serviceAccountTokenCreator|iam\.serviceAccountKey.*)$"
)
"""Roles by which one gets all others, or most."""
_ENOUGH = ("roles/storage.objectAdmin",)
"""Called so, and only about what lies in buckets."""
_OF_KUBERNETES = re.compile(r"^(kube-.*|gke-.*|gmp-.*|istio-system|jobset-system|kueue-system)$")
_EVERYWHERE = ipaddress.IPv4Network("0.0.0.0/0")


UNASKED = (
    "network.nat: in a shared VPC no router is made unasked: without a NAT that is there already, private nodes reach "
    "nothing outside of Google (nat: false says that there is one)"
)
"""Of who has not looked whether there is one, or may not."""


def risks(
    network: Network, cluster: ControlPlane, accounts: Accounts, *, has_nat: bool, looks: bool = False
) -> Iterator[str]:
    """Yields what is allowed, and may not be meant: each with what it leads to. `looks`: without UNASKED."""
    for whose, roles in (("nodes", accounts.nodes.roles), ("workloads", accounts.workloads.roles)):
        for role in roles:
            if _MIGHTY.match(role) and role not in _ENOUGH:
                yield (
                    f"accounts.{whose}.roles: with {role} whoever gets into a pod of the cluster can do as much in the "
                    "project"
                )
    for one in cluster.authorized_networks:
        if _is_everywhere(one):
            yield f"cluster.authorized_networks: {one} lets everybody reach the control plane"
    if cluster.private and not has_nat and not network.existing:
        yield (
            "network.nat: private nodes without it reach nothing outside of Google: no image of other registries, no "
            "package"
        )
    if cluster.private and network.host_project is not None and network.nat is None and not looks:
        yield UNASKED
    if cluster.private and network.existing and network.iap:
        yield (
            "network.iap: in a network that is there no rule is made: let 35.235.240.0/20 reach port 22 there, or SSH "
            "to nodes without public addresses does not come through (iap: false says that you know)"
        )
    for field in ("subnet_range", "pods_range", "services_range"):
        given = getattr(network, field)
        if given is not None and not ipaddress.IPv4Network(given).is_private and not _is_shared(given):
            yield f"network.{field}: {given} are public addresses: whoever has them cannot be reached from here"


def wrong_spaces(namespace: str, teams: Sequence[Team]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields namespaces that are Kubernetes' own, with where that stands."""
    if not teams and _OF_KUBERNETES.match(namespace):
        yield ("namespace",), f"namespace: {namespace} is the cluster's own: take another one"
    for index, team in enumerate(teams):
        space = team.namespace or team.name
        if _OF_KUBERNETES.match(space):
            word = "namespace" if team.namespace else "name"
            yield (
                ("teams", index, word),
                f"{word}: {space} is a namespace of the cluster's own: take another one",
            )


def _is_everywhere(given: str) -> bool:
    try:
        return ipaddress.IPv4Network(given.rpartition("=")[2], strict=False) == _EVERYWHERE
    except ValueError:
        return False


def _is_shared(given: str) -> bool:
    return ipaddress.IPv4Network(given).subnet_of(ipaddress.IPv4Network("100.64.0.0/10"))
