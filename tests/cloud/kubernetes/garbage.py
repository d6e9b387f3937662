"""Garbage collection: dependents of owners that are gone, foreground deletes, namespaces that end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.runner import Runner
from tests.cloud.kubernetes.store import FOREGROUND, ORPHAN, Change, Key, Obj

if TYPE_CHECKING:
    from tests.cloud.kubernetes.world import World


def runner(world: World) -> Runner:
    """Returns the collector. Its keys name what to look at; an owner that is gone is the key ("", "", its UID)."""
    return Runner(world, "garbage", _keys, Garbage(world).collect)


def _keys(change: Change) -> Iterable[Key]:
    meta = change.obj["metadata"]
    if change.type == "DELETED":
        yield ("", "", meta["uid"])
        for owner in meta.get("ownerReferences") or []:
            yield ("", "owner", owner["uid"])
        if meta.get("namespace"):
            yield ("namespaces", "", meta["namespace"])
    elif meta.get("deletionTimestamp") or (change.type == "ADDED" and meta.get("ownerReferences")):
        yield change.key


class Garbage:
    """Deletes what nobody owns any more."""

    def __init__(self, world: World) -> None:
        """Works in one cluster."""
        self._world = world
        self._going: dict[str, Key] = {}
        """Owners that wait for their dependents, by UID."""

    def collect(self, key: Key) -> float | None:
        """Looks at one object, or at what an owner left."""
        store = self._world.store
        if not key[0]:
            if key[1] == "owner":
                if waiting := self._going.get(key[2]):
                    self._foreground(waiting)
            else:
                self._going.pop(key[2], None)
                for one in store.owned_by(key[2]):
                    self._dependent(one)
            return None
        obj = store.at(key)
        if obj is None:
            return None
        finalizers = obj["metadata"].get("finalizers") or []
        if not obj["metadata"].get("deletionTimestamp"):
            self._dependent(key)
        elif key[0] == "namespaces":
            self._namespace(key)
        elif FOREGROUND in finalizers:
            self._going[obj["metadata"]["uid"]] = key
            self._foreground(key)
        elif ORPHAN in finalizers:
            self._orphan(key, obj)
        return None

    def _dependent(self, key: Key) -> None:
        """Deletes an object whose owners are all gone."""
        obj = self._world.store.at(key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return
        owners = obj["metadata"].get("ownerReferences") or []
        if owners and not any(self._exists(owner, key[1]) for owner in owners):
            self._delete(key, "Background")

    def _exists(self, owner: Obj, namespace: str) -> bool:
        group = owner["apiVersion"].rpartition("/")[0]
        resource = self._world.registry.of_kind(group, owner["kind"])
        if resource is None:
            return False
        found = self._world.store.get(
            resource.qualified, namespace if resource.namespaced else "", owner["name"]
        )
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    def _foreground(self, key: Key) -> None:
        owner = self._world.store.at(key)
        if owner is None:
            return
        blocking = []
        for one in self._world.store.owned_by(owner["metadata"]["uid"]):
            obj = self._world.store.at(one)
            if obj is None:
                continue
            mine = [
                ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] == owner["metadata"]["uid"]
            ]
            if mine[0].get("blockOwnerDeletion"):
                blocking.append(one)
            if not obj["metadata"].get("deletionTimestamp"):
                self._delete(one, "Foreground")
        blocking = [one for one in blocking if self._world.store.at(one) is not None]
        if not blocking:
            self._going.pop(owner["metadata"]["uid"], None)
            self._drop_finalizer(key, FOREGROUND)

    def _orphan(self, key: Key, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]

        def disown(obj: Obj) -> None:
            kept = [ref for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != uid]
            obj["metadata"]["ownerReferences"] = kept

        for one in self._world.store.owned_by(uid):
            self._world.store.change(one, disown)
        self._drop_finalizer(key, ORPHAN)

    def _namespace(self, key: Key) -> None:
        left = [
            (kind, key[2], one["metadata"]["name"])
            for kind in self._world.store.kinds()
            for one in self._world.store.list(kind, key[2])
        ]
        for one in left:
            obj = self._world.store.at(one)
            if obj is not None and not obj["metadata"].get("deletionTimestamp"):
                self._delete(one, "Background")
        if not any(self._world.store.list(kind, key[2]) for kind in self._world.store.kinds()):
            self._drop_finalizer(key, "kubernetes")

    def _delete(self, key: Key, policy: str) -> None:
        with contextlib.suppress(Refused):
            self._world.delete(key, {"propagationPolicy": policy})

    def _drop_finalizer(self, key: Key, name: str) -> None:
        def edit(obj: Obj) -> None:
            obj["metadata"]["finalizers"] = [
                one for one in obj["metadata"].get("finalizers") or [] if one != name
            ]

        self._world.store.change(key, edit)
