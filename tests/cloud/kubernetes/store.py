"""What the cluster holds: objects with one global resource version, their history for watches, who owns whom."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from tests.cloud.kubernetes import clock, refusals
from tests.cloud.kubernetes.identities import job_identity
from tests.cloud.kubernetes.resources import Registry, Resource

Obj = dict[str, Any]
Key = tuple[str, str, str]
"""Kind as `plural.group`, namespace (empty for cluster-scoped), name."""

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_REMEMBERED = 200_000


def copied(obj: Any) -> Any:
    """Returns a deep copy; stored objects are never changed in place."""
    return orjson.loads(orjson.dumps(obj))


@dataclass(frozen=True)
class Change:
    """One version of one object, as a watch tells it."""

    rv: int
    type: str
    key: Key
    obj: Obj
    old: Obj | None

    @cached_property
    def encoded(self) -> bytes:
        """The object as JSON, made once for all watches."""
        return orjson.dumps(self.obj)


class Store:
    """Objects by key. One thread only; whoever reads an object must not change it."""

    def __init__(self, registry: Registry) -> None:
        """Starts empty."""
        self.registry = registry
        self.rv = 1000
        self.oldest = 1000
        self.history: deque[Change] = deque(maxlen=_REMEMBERED)
        self._objects: dict[str, dict[tuple[str, str], Obj]] = defaultdict(dict)
        self._owned: dict[str, set[Key]] = defaultdict(set)
        self._listeners: list[Callable[[Change], None]] = []

    # --- reading

    def get(self, qualified: str, namespace: str, name: str) -> Obj | None:
        """Returns an object, or None."""
        return self._objects[qualified].get((namespace, name))

    def at(self, key: Key) -> Obj | None:
        """Returns an object by its key, or None."""
        return self.get(*key)

    def list(self, qualified: str, namespace: str = "") -> list[Obj]:
        """Returns the objects of a kind, in all namespaces unless one is named, by namespace and name."""
        found = self._objects[qualified]
        return [found[at] for at in sorted(found) if not namespace or at[0] == namespace]

    def each(self, qualified: str) -> Iterator[Obj]:
        """Iterates over the objects of a kind in no order."""
        return iter(list(self._objects[qualified].values()))

    def owned_by(self, uid: str) -> list[Key]:
        """Returns the keys of the objects with this owner."""
        return sorted(self._owned[uid])

    def kinds(self) -> list[str]:
        """Returns the kinds that have objects."""
        return sorted(kind for kind, found in self._objects.items() if found)

    # --- listening

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Calls the listener at each change from now on; returns how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def compact(self) -> None:
        """Forgets the history: a watch from an older version is told 410."""
        self.history.clear()
        self.oldest = self.rv

    # --- writing

    def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Adds an object; fills in what the server fills in."""
        obj = copied(obj)
        meta = obj["metadata"]
        if not meta.get("name"):
            meta["name"] = meta["generateName"] + "".join(random.choices(_LETTERS, k=5))
        key = (resource.qualified, meta.get("namespace", ""), meta["name"])
        if self.at(key) is not None:
            raise refusals.already_exists(resource.qualified, meta["name"])
        for gone in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(gone, None)
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = clock.seconds_text()
        if "spec" in obj:
            meta["generation"] = 1
        if resource.qualified == "jobs.batch":
            job_identity(obj)
        if dry_run:
            return obj
        return self._write("ADDED", key, obj, None)

    def update(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Replaces an object; nothing is written where nothing changed, and a released one that is to go goes."""
        key = _key(resource, obj)
        old = self.at(key)
        if old is None:
            raise refusals.not_found(resource.qualified, key[2])
        obj = copied(obj)
        _keep_identity(resource, obj, old)
        if obj.get("spec") != old.get("spec") and "spec" in obj:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if dry_run:
            return obj
        if obj == old:
            return old
        if _released(obj):
            return self._remove(key, self._write("MODIFIED", key, obj, old))
        return self._write("MODIFIED", key, obj, old)

    def change(self, key: Key, edit: Callable[[Obj], object]) -> Obj | None:
        """Lets a controller edit a copy of an object and write it; None where the object is gone."""
        old = self.at(key)
        if old is None:
            return None
        fresh = copied(old)
        edit(fresh)
        return self.update(self.registry.named(key[0]), fresh)

    def remove(self, key: Key) -> None:
        """Takes an object away at once."""
        old = self.at(key)
        if old is not None:
            self._remove(key, old)

    def _remove(self, key: Key, obj: Obj) -> Obj:
        last = copied(obj)
        del self._objects[key[0]][key[1:]]
        for owner in last["metadata"].get("ownerReferences") or []:
            self._owned[owner["uid"]].discard(key)
        return self._publish("DELETED", key, last, obj)

    def _write(self, how: str, key: Key, obj: Obj, old: Obj | None) -> Obj:
        for owner in (old or {}).get("metadata", {}).get("ownerReferences") or []:
            self._owned[owner["uid"]].discard(key)
        for owner in obj["metadata"].get("ownerReferences") or []:
            self._owned[owner["uid"]].add(key)
        self._objects[key[0]][key[1:]] = obj
        return self._publish(how, key, obj, old)

    def _publish(self, how: str, key: Key, obj: Obj, old: Obj | None) -> Obj:
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        change = Change(self.rv, how, key, obj, old)
        if len(self.history) == self.history.maxlen:
            self.oldest = self.history[0].rv
        self.history.append(change)
        for listener in list(self._listeners):
            listener(change)
        return obj


def key_of(resource: Resource, namespace: str, name: str) -> Key:
    """Returns the key of an object; cluster-scoped ones have no namespace."""
    return (resource.qualified, namespace if resource.namespaced else "", name)


def _key(resource: Resource, obj: Obj) -> Key:
    return (resource.qualified, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _keep_identity(resource: Resource, obj: Obj, old: Obj) -> None:
    meta, was = obj["metadata"], old["metadata"]
    sent = meta.get("resourceVersion")
    if sent and sent != was["resourceVersion"]:
        raise refusals.conflict(resource.qualified, was["name"])
    if meta.get("uid", was["uid"]) != was["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {was['uid']}"
        raise refusals.conflict(resource.qualified, was["name"], why)
    for kept in ("uid", "creationTimestamp", "resourceVersion", "generation", "generateName"):
        if kept in was:
            meta[kept] = was[kept]


def _released(obj: Obj) -> bool:
    meta = obj["metadata"]
    going = meta.get("deletionTimestamp") and not meta.get("finalizers")
    return bool(going) and not meta.get("deletionGracePeriodSeconds")
