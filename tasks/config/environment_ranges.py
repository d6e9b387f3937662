"""Ranges of addresses of an environment: whether they overlap, whether the nodes find room, and larger ones. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from tasks.config.environment_parts import PODS_RANGE, SERVICES_RANGE, SUBNET_RANGE, Network

POD_ADDRESSES: Mapping[str, int] = {"tpu": 32, "cpu": 256}
"""GKE gives each node twice the addresses of the pods that it may have, in a power of two: 15 pods, and 110."""

_RESERVED = 4
"""Addresses of a subnetwork that are nobody's."""
_SPARE = 1.5
"""Half as many again for what is not said: a pool that is replaced is there twice, and upgrades add nodes."""
_LARGER = {"subnet_range": "10.128.0.0", "pods_range": "10.32.0.0"}
"""Where larger ranges begin that are taken when nobody says which: apart from each other, and from the services."""
_LARGEST = {"subnet_range": 16, "pods_range": 11}


@dataclass(frozen=True)
class Sizes:
    """How many nodes of each kind there may be."""

    tpu: int
    cpu: int

    @property
    def nodes(self) -> int:
        """All of them."""
        return self.tpu + self.cpu

    def needed(self, field: str) -> int:
        """Returns how many addresses a range must have."""
        if field == "subnet_range":
            return self.nodes + _RESERVED
        return self.tpu * POD_ADDRESSES["tpu"] + self.cpu * POD_ADDRESSES["cpu"]


@dataclass(frozen=True)
class Range:
    """A range of addresses. `told`: the file says it; else one that is there already does as well, if it has room."""

    field: str
    cidr: str
    told: bool
    least: int = 0

    def has_room(self, cidr: str) -> bool:
        """Whether another range has as many addresses as this one must have."""
        return IPv4Network(cidr).num_addresses >= self.least


def ranges_of(network: Network, sizes: Sizes) -> tuple[Range, Range, Range]:
    """Returns the ranges of nodes, pods and services: as told, else the usual ones, or larger where nodes need it."""
    return (
        _range(network, "subnet_range", SUBNET_RANGE, sizes.needed("subnet_range")),
        _range(network, "pods_range", PODS_RANGE, sizes.needed("pods_range")),
        _range(network, "services_range", SERVICES_RANGE, 0),
    )


def wrong_with(network: Network, sizes: Sizes) -> Iterator[tuple[str, str]]:
    """Yields the fields of the network that cannot be, each with what is wrong with it."""
    found = ranges_of(network, sizes)
    for n, one in enumerate(found):
        for other in found[:n]:
            if IPv4Network(one.cidr).overlaps(IPv4Network(other.cidr)):
                field = one.field if one.told or not other.told else other.field
                usual = "" if one.told and other.told else " (it is used where nothing else is said)"
                left, right = (one, other) if field == one.field else (other, one)
                yield field, f"{left.cidr} and {right.field} {right.cidr} overlap{usual}: take another range"
        if not one.told and IPv4Network(one.cidr).num_addresses < one.least:
            yield one.field, f"{sizes.nodes} nodes need {one.least} addresses: say which range they are of"
        if one.told and not one.has_room(one.cidr):
            has, prefix = IPv4Network(one.cidr).num_addresses, _prefix(one.least)
            yield (
                one.field,
                f"{one.cidr} has {has} addresses, and {_told(sizes)} need {one.least}: "
                f"take a /{prefix}, or leave it out",
            )


def _range(network: Network, field: str, usual: str, least: int) -> Range:
    told = getattr(network, field)
    if told is not None:
        return Range(field, told, True, least)
    if IPv4Network(usual).num_addresses >= least:
        return Range(field, usual, False, least)
    prefix = max(_LARGEST[field], _prefix(math.ceil(least * _SPARE)))
    return Range(field, f"{_LARGER[field]}/{prefix}", False, least)


def _prefix(addresses: int) -> int:
    return 32 - math.ceil(math.log2(max(1, addresses)))


def _told(sizes: Sizes) -> str:
    return f"{sizes.tpu} TPU nodes and {sizes.cpu} CPU nodes" if sizes.tpu else f"{sizes.cpu} CPU nodes"
