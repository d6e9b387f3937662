"""Lists of the APIs of which each part has a name: some of one's own among those of others, in whatever order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = ("rangeName", "name", "cidr_block")
"""By which parts of a list are known."""

_LINKS = ("https://www.googleapis.com/compute/v1/", "https://compute.googleapis.com/compute/v1/")


def name_field(parts: Any) -> str:
    """Returns the field by which the parts of a list are known; empty: they are known by nothing, or there are none."""
    if not isinstance(parts, list | tuple) or not parts:
        return ""
    return next(
        (key for key in _NAMES if all(isinstance(one, Mapping) and key in one for one in parts)),
        "",
    )


def short(link: Any) -> Any:
    """Returns a link to a thing of Compute Engine as it is written in short; anything else as it is."""
    if isinstance(link, str):
        for server in _LINKS:
            link = link.removeprefix(server)
    return link


def by_name(there: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
    """Returns parts in the order that is wanted; None for one that is missing. Those of others are left out."""
    key = name_field(wanted)
    named = {short(one.get(key)): one for one in there if isinstance(one, Mapping)}
    return [named.get(short(one[key])) for one in wanted]


def with_others(there: Any, wanted: Any) -> Any:
    """Returns what is wanted with all that stands beside it: in its parts, and in lists as parts of other names."""
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        return {**there, **{name: with_others(there.get(name), value) for name, value in wanted.items()}}
    key = name_field(wanted)
    if not key or not isinstance(there, list | tuple):
        return wanted
    asked = {short(one[key]): one for one in wanted}
    kept = [
        with_others(one, asked.pop(short(one.get(key)))) if short(one.get(key)) in asked else one
        for one in there
    ]
    return [*kept, *asked.values()]


def those_at(fields: Any, paths: Sequence[str], above: str = "") -> Any:
    """Returns of a document what stands at some paths; of lists the parts that have any of it, with their names."""
    if above and any(above == f"{path}." for path in paths):
        return fields
    if isinstance(fields, Mapping):
        return {
            name: those_at(value, paths, f"{above}{name}.")
            for name, value in fields.items()
            if any(f"{path}.".startswith(f"{above}{name}.") for path in paths) or (above and name in _NAMES)
        }
    if not name_field(fields):
        return fields
    return [
        those_at(one, paths, f"{above}{index}.")
        for index, one in enumerate(fields)
        if any(path.startswith(f"{above}{index}.") for path in paths)
    ]
