"""What stands in Kueue's objects unasked and decides who gets in and what is found: named, and taken out. Pure.

Server-side apply leaves what others wrote of fields that it does not name: a queue that is held stays held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.cloud.kubernetes_kinds import Object
from tasks.targets.kube_objects import spec

Path = tuple[str, ...]

_USUAL: Mapping[Path, Sequence[Any]] = {
    ("stopPolicy",): ("None",),
    ("queueingStrategy",): ("BestEffortFIFO",),
    ("cohortName",): (),
    ("admissionChecks",): (),
    ("admissionChecksStrategy",): (),
    ("preemption", "borrowWithinCohort", "policy"): ("Never",),
    ("flavorFungibility", "whenCanBorrow"): ("MayStopSearch", "Borrow"),  # as v1beta2 and v1beta1 call it
    ("flavorFungibility", "whenCanPreempt"): ("TryNextFlavor",),
    ("nodeTaints",): (),
    ("tolerations",): (),
}
"""Fields of a spec, and what Kueue writes there by itself; the first is what they are set to again."""
_WHOLE: Sequence[Path] = (("namespaceSelector",), ("nodeLabels",))
"""Maps of which each entry more means something: fewer namespaces, or other nodes."""


@dataclass(frozen=True)
class Excess:
    """A field that stands there unasked. `usual`: what it is without a word; None: nothing."""

    path: Path
    has: Any
    usual: Any = None


def excess(wanted: Object, there: Object) -> Iterator[Excess]:
    """Yields the fields of an object that change its meaning by being there."""
    asked, has = spec(wanted), spec(there)
    for path, usual in _USUAL.items():
        value = _at(has, path)
        if _at(asked, path) is None and value and value not in usual:
            yield Excess(path, value, usual[0] if usual else None)
    for path in _WHOLE:
        named = _at(asked, path) or {}
        for key, value in (_at(has, path) or {}).items():
            if key not in named:
                yield Excess((*path, key), value)


def without(found: Sequence[Excess]) -> Object:
    """Returns the merge patch after which none of these is there."""
    change: dict[str, Any] = {}
    for one in found:
        into = change
        for part in one.path[:-1]:
            into = into.setdefault(part, {})
        into[one.path[-1]] = one.usual
    return {"spec": change}


def _at(fields: Any, path: Path) -> Any:
    for part in path:
        fields = fields.get(part) if isinstance(fields, Mapping) else None
    return fields
