"""What was made under a lease, as people are told of it: few things by name, many by how many of a kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from runtime.contract.counting import counted
from tasks.leases.lease import Lease
from tasks.leases.resource import ResourceRef

_NO_THINGS = frozenset({"lock", "share"})
"""Kinds that are a hold on something: giving them up takes nothing away."""
_FEW = 3


def made_under(lease: Lease) -> Sequence[ResourceRef]:
    """Returns all that was made under a lease, also what is inside something else of it and goes with that."""
    return things(ref for ref in lease.resources if ref.ours)


def things(refs: Iterable[ResourceRef]) -> Sequence[ResourceRef]:
    """Returns what of this is a thing, each once."""
    return list({ref.key: ref for ref in refs if ref.kind not in _NO_THINGS}.values())


def gone_with(lease: Lease, deleted: Sequence[ResourceRef]) -> Sequence[ResourceRef]:
    """Returns what was deleted of a lease, and what went because it was inside that."""
    keys = {ref.key for ref in deleted}
    return [
        *deleted,
        *(ref for ref in lease.resources if ref.ours and ref.inside in keys and ref.key not in keys),
    ]


def told(refs: Sequence[ResourceRef]) -> str:
    """Returns how many things there are, and which: `2 resources (gke_cluster mine, jobset r-e1)`."""
    if not refs:
        return "no resources"
    few = ", ".join(f"{ref.kind} {ref.name}" for ref in refs)
    return f"{counted(len(refs), 'resource')} ({few if len(refs) <= _FEW else _by_kind(refs)})"


def _by_kind(refs: Iterable[ResourceRef]) -> str:
    kinds = Counter(ref.kind for ref in refs)
    return ", ".join(counted(number, kind) for kind, number in kinds.items())
