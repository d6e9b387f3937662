"""Which fields an object has, as server-side apply counts them: paths, and the form of `managedFields`."""

from __future__ import annotations

from typing import Any

import orjson

from tests.cloud.kubernetes.patches import MERGE_KEYS
from tests.cloud.kubernetes.store import Obj

Path = tuple[str, ...]
"""Steps as in fieldsV1: `f:name` for a field, `k:{…}` for the entry of a keyed list."""

_NOBODYS = {
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "generateName", "selfLink",
}  # fmt: skip


def paths(obj: Obj) -> set[Path]:
    """Returns the paths of all leaves that somebody can own."""
    found: set[Path] = set()
    for key, value in obj.items():
        if key == "metadata":
            owned = {name: one for name, one in value.items() if name not in _NOBODYS}
            _collect(("f:metadata",), owned, "metadata", found)
        elif key not in ("apiVersion", "kind"):
            _collect((f"f:{key}",), value, key, found)
    return found


def _collect(at: Path, value: Any, name: str, found: set[Path]) -> None:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            _collect((*at, f"f:{key}"), one, key, found)
        return
    keys = keys_of(name, value)
    if not keys:
        if value != {} or len(at) > 1:
            found.add(at)
        return
    for one in value:
        entry = (*at, _entry(one, keys))
        for key, inner in one.items():
            _collect((*entry, f"f:{key}"), inner, key, found)


def keys_of(name: str, value: Any) -> tuple[str, ...]:
    """Returns by which fields the entries of a list are told apart; empty where the list is one value."""
    keys = MERGE_KEYS.get(name, ())
    if keys and isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return tuple(key for key in keys if all(key in one for one in value))
    return ()


def _entry(one: Obj, keys: tuple[str, ...]) -> str:
    return "k:" + orjson.dumps({key: one[key] for key in keys}, option=orjson.OPT_SORT_KEYS).decode()


def encoded(found: set[Path]) -> dict[str, Any]:
    """Returns paths as `fieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(found):
        at = tree
        for step in path:
            at = at.setdefault(step, {})
    return tree


def decoded(tree: dict[str, Any], at: Path = ()) -> set[Path]:
    """Returns the paths of `fieldsV1`."""
    if not tree:
        return {at} if at else set()
    return {path for step, inner in tree.items() for path in decoded(inner, (*at, step))}


def value_at(obj: Any, path: Path) -> Any:
    """Returns what is at a path, None for nothing."""
    for step in path:
        if step.startswith("f:"):
            obj = obj.get(step[2:]) if isinstance(obj, dict) else None
        else:
            wanted = orjson.loads(step[2:])
            entries = obj if isinstance(obj, list) else []
            obj = next((one for one in entries if all(one.get(k) == v for k, v in wanted.items())), None)
    return obj


def remove(obj: Any, path: Path) -> None:
    """Takes away what is at a path, in place; a keyed entry that then has nothing but its keys goes too."""
    *way, last = path
    parents = [obj]
    for step in way:
        parents.append(value_at(parents[-1], (step,)))
    of_entry = bool(way) and way[-1].startswith("k:")
    is_key = of_entry and last[2:] in orjson.loads(way[-1][2:])
    if isinstance(parents[-1], dict) and not is_key:  # what tells an entry apart goes with it
        parents[-1].pop(last[2:], None)
    for depth in range(len(way) - 1, -1, -1):
        step, parent, child = way[depth], parents[depth], parents[depth + 1]
        if step.startswith("k:"):
            if (
                isinstance(parent, list)
                and isinstance(child, dict)
                and set(child) <= set(orjson.loads(step[2:]))
            ):
                parent.remove(child)
        elif child in ({}, []) and isinstance(parent, dict) and depth:
            parent.pop(step[2:], None)


def merged(old: Any, new: Any, name: str = "") -> Any:
    """Returns what is after an apply: maps and keyed lists are merged, everything else is replaced."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merged(old.get(key), value, key) for key, value in new.items()}}
    keys = keys_of(name, new)
    if not keys or not isinstance(old, list):
        return new
    entries = list(old)
    for one in new:
        at = next((i for i, had in enumerate(entries) if all(had.get(k) == one[k] for k in keys)), None)
        if at is None:
            entries.append(one)
        else:
            entries[at] = merged(entries[at], one)
    return entries


def text(path: Path) -> str:
    """Returns a path as messages name it: `.spec.containers[name="c"].image`."""
    told = ""
    for step in path:
        if step.startswith("f:"):
            told += f".{step[2:]}"
        else:
            named = ",".join(
                f"{key}={orjson.dumps(value).decode()}" for key, value in orjson.loads(step[2:]).items()
            )
            told += f"[{named}]"
    return told
