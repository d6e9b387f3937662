"""One cluster: its store, settings, logs and faults, and the way in for every write, a client's or a controller's."""

from __future__ import annotations

import math
import random
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cloud.kubernetes import admission, clock, defaults, refusals
from tests.cloud.kubernetes.deleting import delete
from tests.cloud.kubernetes.faults import Faults
from tests.cloud.kubernetes.logs import Logs
from tests.cloud.kubernetes.resources import Registry, Resource
from tests.cloud.kubernetes.settings import Settings
from tests.cloud.kubernetes.store import Change, Key, Obj, Store, copied

ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap that each namespace has."""
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class World:
    """What the API, the controllers and the kubelet share."""

    def __init__(self, folder: Path, settings: Settings, *, jobset: bool = True, kueue: bool = True) -> None:
        """Starts an empty cluster whose pods' files lie in a folder."""
        self.folder = folder
        self.settings = settings
        self.registry = Registry(jobset=jobset, kueue=kueue)
        self.store = Store(self.registry)
        self.faults = Faults()
        self.logs = Logs()
        self._told: dict[str, Key] = {}
        self._ports: dict[str, dict[int, int]] = {}
        self.mark = secrets.token_hex(8)
        """What the environment of every process of this cluster carries."""
        self.installed = {name: 0.0 for name, there in (("jobset", jobset), ("kueue", kueue)) if there}
        """From when on (monotonic) the controllers that are installed work."""
        self.store.subscribe(self._undefined)
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create("namespaces", {"metadata": {"name": name}})

    def runs(self, controller: str) -> bool:
        """Says whether a controller is up."""
        if controller in ("jobset", "kueue") and self.installed.get(controller, math.inf) > time.monotonic():
            return False
        return controller not in self.settings.stopped

    def ports(self, pod: Obj) -> dict[int, int]:
        """Returns where the ports of a pod's sidecars are on this machine, which is every pod's."""
        known = self._ports.setdefault(pod["metadata"]["uid"], {})
        for one in pod["spec"].get("initContainers") or ():
            for port in one.get("ports") or () if one.get("restartPolicy") == "Always" else ():
                known.setdefault(port["containerPort"], _free_port())
        return known

    def create(self, qualified: str, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Creates an object as a request would: defaults, admission, then the store."""
        resource = self.registry.named(qualified)
        obj = copied(obj)
        obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
        if resource.namespaced:
            self._open_namespace(resource, obj)
        defaults.fill(qualified, obj)
        admission.creating(self, resource, obj)
        made = self.store.create(resource, obj, dry_run=dry_run)
        if not dry_run:
            made = self._completed(resource, made)
        return made

    def _undefined(self, change: Change) -> None:
        """Takes a kind away with its definition, and all objects of it."""
        if change.type == "DELETED" and change.key[0] == _DEFINITIONS:
            kind = change.key[2]
            for obj in self.store.each(kind):
                self.store.remove((kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]))
            self.registry.forget(kind)

    def _completed(self, resource: Resource, made: Obj) -> Obj:
        meta = made["metadata"]
        if resource.qualified == _DEFINITIONS:
            self.registry.define(made)
        if resource.qualified == "namespaces":
            self.create("serviceaccounts", {"metadata": {"name": "default", "namespace": meta["name"]}})
            root = {"metadata": {"name": ROOT_CA, "namespace": meta["name"]}, "data": {"ca.crt": ""}}
            self.create("configmaps", root)
        return made

    def update(self, resource: Resource, obj: Obj, *, sub: str = "", dry_run: bool = False) -> Obj:
        """Replaces an object as a request would; a status only through its subresource."""
        old = self.store.get(
            resource.qualified, obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        )
        if old is None:
            raise refusals.not_found(resource.qualified, obj["metadata"]["name"])
        obj = copied(obj)
        obj["kind"], obj["apiVersion"] = resource.kind, resource.api_version
        sent = obj["metadata"].get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            raise refusals.conflict(resource.qualified, obj["metadata"]["name"])
        if sub == "status":
            meta = {**old["metadata"], **({"resourceVersion": sent} if sent else {})}
            status = {"status": obj["status"]} if "status" in obj else {}
            obj = {
                **{key: value for key, value in old.items() if key != "status"},
                "metadata": meta,
                **status,
            }
        else:
            if resource.status:
                obj.pop("status", None)
                obj |= {"status": old["status"]} if "status" in old else {}
            for kept in ("deletionTimestamp", "deletionGracePeriodSeconds"):
                obj["metadata"].pop(kept, None)
                if kept in old["metadata"]:
                    obj["metadata"][kept] = old["metadata"][kept]
            admission.updating(self, resource, obj, old)
        return self.store.update(resource, obj, dry_run=dry_run)

    def delete(
        self, key: Key, options: dict[str, Any] | None = None, *, dry_run: bool = False
    ) -> tuple[Obj, bool]:
        """Deletes an object as a request would; returns it and whether it is gone."""
        return delete(self.store, self.registry.named(key[0]), key, options or {}, dry_run=dry_run)

    def set_status(self, key: Key, edit: Callable[[Obj], object]) -> Obj | None:
        """Lets a controller edit an object's status (or anything else of it)."""
        return self.store.change(key, edit)

    def event(
        self, about: Obj, reason: str, message: str, *, warning: bool = False, by: str, **more: Any
    ) -> None:
        """Records an event; one that was told before only counts up."""
        new_style = by.startswith(("kueue", "default-scheduler", "jobset.x-k8s.io/"))
        meta = about["metadata"]
        space = meta.get("namespace", "default")
        kind = "Warning" if warning else "Normal"
        source = {"component": by, **({"host": more["host"]} if "host" in more else {})}
        same = f"{meta['uid']} {reason} {message} {by}"
        told = self._told.get(same)
        if told and not new_style and self.store.at(told) is not None:
            self.store.change(told, _again)
            return
        name = f"{meta['name']}.{clock.nanoseconds():x}{random.randrange(16):x}"
        involved = {
            "kind": about["kind"],
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": about["apiVersion"],
            "resourceVersion": meta["resourceVersion"],
            **({"fieldPath": more["field"]} if "field" in more else {}),
        }
        now = clock.seconds_text()
        made = self.create(
            "events",
            {
                "metadata": {"name": name, "namespace": space},
                "involvedObject": involved,
                "reason": reason,
                "message": message[:1024],
                "source": {} if new_style else source,
                "firstTimestamp": None if new_style else now,
                "lastTimestamp": None if new_style else now,
                **({} if new_style else {"count": 1}),
                "type": kind,
                "eventTime": clock.micro_text() if new_style else None,
                **({"action": more.get("action", reason)} if new_style else {}),
                "reportingComponent": by,
                "reportingInstance": more.get("host", "" if not new_style else f"{by}-vm"),
            },
        )
        self._told[same] = ("events", space, made["metadata"]["name"])

    def _open_namespace(self, resource: Resource, obj: Obj) -> None:
        space = obj["metadata"].get("namespace", "")
        found = self.store.get("namespaces", "", space)
        if found is None:
            raise refusals.not_found("namespaces", space)
        if found["metadata"].get("deletionTimestamp") and resource.qualified != "events":
            name = obj["metadata"].get("name", "")
            why = f"unable to create new content in namespace {space} because it is being terminated"
            raise refusals.forbidden(resource.qualified, name, why)


def _again(event: Obj) -> None:
    event["count"] += 1
    event["lastTimestamp"] = clock.seconds_text()
