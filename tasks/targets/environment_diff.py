"""What has to be done so that an environment is as wanted: field by field, from what is there. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.cloud.named_parts import by_name, name_field, short, those_at
from tasks.cloud.things import Thing, value_at
from tasks.targets.cluster_requests import CPU_POOL
from tasks.targets.environment_wanted import Wanted

Do = Literal["make", "change", "keep", "use", "refuse"]
"""`use`: it was there before, and is as it should be: it stays when the environment goes."""

_OTHERS_TOO = ("secondaryIpRanges", "nats")
"""Lists of which others may have parts as well."""


ANEW = "`env up` with --set tpu_pools=0, then without it, makes the pools anew"
"""What gives slices what is not changed on those that are there."""


@dataclass(frozen=True)
class Difference:
    """A field that is not as wanted. `can`: the API changes it on what is there."""

    path: str
    there: Any
    wanted: Any
    can: bool
    instead: str = ""
    """What brings it about where the API does not."""

    def __str__(self) -> str:
        return f"{self.path}: {_said(self.there)} → {_said(self.wanted)}"


@dataclass(frozen=True)
class Step:
    """What is done about one resource. `why` says why it is refused; `there` is what was seen of it, if anything."""

    do: Do
    wanted: Wanted
    differences: tuple[Difference, ...] = ()
    why: str = ""
    there: Thing | None = field(default=None, compare=False, repr=False)

    @property
    def refused(self) -> str:
        """Why it is refused, with the fields that are not as wanted."""
        fields = "; ".join(map(str, self.differences))
        return f"{self.wanted}: {self.why}" + (f" ({fields})" if fields else "")

    def __str__(self) -> str:
        return f"{self.do} {self.wanted}" + (f": {self.why}" if self.why else "")


def step_for(
    wanted: Wanted, there: Thing | None, *, ours: bool, in_place: Sequence[str], whose: str = ""
) -> Step:
    """Returns what is to be done about one resource. `whose`: the lease of ours by which it was made, if another."""
    if there is None:
        if wanted.existing:
            why = f"there is no {wanted.kind} {wanted.name} in {wanted.scope}, and existing: true says that there is"
            return Step("refuse", wanted, why=why)
        return Step("make", wanted)
    found = tuple(differences(wanted, there.fields, in_place))
    if ours:
        return Step("change" if found else "keep", wanted, found, there=there)
    if whose and not wanted.existing:
        return Step("refuse", wanted, found, f"it was made by lease {whose}: choose another name")
    if found and wanted.existing:
        return Step(
            "refuse", wanted, found, "it is there, and not as it is needed: change it, or what is asked for"
        )
    if found:
        return Step("refuse", wanted, found, "it was there before, and is another one: choose another name")
    return Step("use", wanted, there=there)


def differences(wanted: Wanted, there: Mapping[str, Any], in_place: Sequence[str]) -> Iterator[Difference]:
    """Yields each field that is asked for and is not so. What is not asked for may be as it likes."""
    for path, value in _lists(wanted.fields):
        has = value_at(there, path)
        if path not in _OTHERS_TOO and isinstance(has, list | tuple) and len(has) > len(value):
            can = _can(path, in_place)
            yield Difference(path, has, value, can, "" if can else _instead(wanted, path))
    before, there = there, _in_order(there, wanted.fields)
    for path, value in leaves(wanted.fields):
        has = value_at(there, path)
        if same(path, has, value) or has in wanted.also.get(path, ()) or _has_room(wanted, path, has):
            continue
        can = _can(path, in_place) and _may_become(path, has, value) and not _taken(wanted, before, path)
        yield Difference(path, has, value, can, "" if can else _instead(wanted, path))


def to_send(wanted: Wanted, found: Sequence[Difference]) -> dict[str, Any]:
    """Returns the fields that changes in place are asked for with: whole at their first level.

    Of lists in which others have parts as well only what differs: what is as it may be must not be said otherwise.
    """
    paths = [one.path for one in found if one.can]
    names = sorted({path.partition(".")[0] for path in paths} & wanted.fields.keys())
    some = those_at(wanted.fields, paths)
    return {name: some[name] if name in _OTHERS_TOO else wanted.fields[name] for name in names}


def _can(path: str, in_place: Sequence[str]) -> bool:
    return any(path == one or path.startswith(f"{one}.") for one in in_place)


def _lists(fields: Any, above: str = "") -> Iterator[tuple[str, Sequence[Any]]]:
    """Yields lists of parts by their paths."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _lists(value, f"{above}{name}.")
        elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
            yield f"{above}{name}", value


def _instead(wanted: Wanted, path: str) -> str:
    """Returns what has to be done so that a field becomes as it is wanted which cannot be changed."""
    if wanted.kind == "node pool" and wanted.name == CPU_POOL:
        return f"delete node pool {wanted.name} in GKE, and `env up` makes it anew"
    if wanted.kind == "node pool":
        return ANEW
    if path == "initial_cluster_version":
        return "GKE upgrades it (gcloud container clusters upgrade), and never goes back; or leave cluster.version out"
    if wanted.kind == "cluster":
        return "only another cluster has it: `env down`, then `env up`"
    return f"leave the file as it was, or name another {wanted.kind}"


def _in_order(there: Any, wanted: Any) -> Any:
    """Returns what is there, with lists of named parts in the order that is wanted; None for a part that is missing."""
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        return {
            **there,
            **{key: _in_order(there[key], value) for key, value in wanted.items() if key in there},
        }
    if not isinstance(there, list | tuple) or not name_field(wanted):
        return there
    return [_in_order(one, each) for one, each in zip(by_name(there, wanted), wanted, strict=True)]


def leaves(fields: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields values by their paths; lists of plain values as a whole."""
    if isinstance(fields, Mapping) and fields:
        for name, value in fields.items():
            yield from leaves(value, f"{above}{name}.")
    elif isinstance(fields, list | tuple) and any(isinstance(one, Mapping) for one in fields):
        for index, value in enumerate(fields):
            yield from leaves(value, f"{above}{index}.")
    elif above:
        yield above.rstrip("."), fields


def same(path: str, has: Any, wanted: Any) -> bool:
    """Whether two values are one to the API: nothing at all is false, zero and empty."""
    if not has and not wanted:
        return True
    if isinstance(has, str) and isinstance(wanted, str):
        has, wanted = short(has), short(wanted)
        if path == "location":
            return bool(has.lower() == wanted.lower())
        return bool(has == wanted or has.endswith(f"/{wanted}") or str(wanted).endswith(f"/{has}"))
    if isinstance(has, list | tuple) and isinstance(wanted, list | tuple):
        return sorted(map(str, has)) == sorted(map(str, wanted))
    return str(has) == str(wanted)


def _has_room(wanted: Wanted, path: str, has: Any) -> bool:
    """Whether a range that nobody said is large enough as it is."""
    least = wanted.room.get(path)
    if least is None or not isinstance(has, str):
        return False
    return ipaddress.ip_network(has).num_addresses >= least


def _may_become(path: str, has: Any, wanted: Any) -> bool:
    """Whether one value may follow the other: ranges grow only, and secondary ones are not changed at all."""
    if path.startswith("secondaryIpRanges"):
        return has is None
    if path == "ipCidrRange":
        return bool(has) and ipaddress.IPv4Network(wanted).supernet_of(ipaddress.IPv4Network(has))
    return True


def _taken(wanted: Wanted, there: Mapping[str, Any], path: str) -> bool:
    """Whether addresses of a range that is missing are those of another one that the subnetwork has."""
    part, _, rest = path.partition(".")
    if part != "secondaryIpRanges":
        return False
    mine = wanted.fields[part][int(rest.partition(".")[0])]
    addresses = ipaddress.ip_network(mine["ipCidrRange"])
    others = [
        one.get("ipCidrRange") for one in there.get(part) or () if one.get("rangeName") != mine["rangeName"]
    ]
    return any(
        addresses.overlaps(ipaddress.ip_network(one)) for one in (there.get("ipCidrRange"), *others) if one
    )


def _said(value: Any) -> str:
    import json

    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
