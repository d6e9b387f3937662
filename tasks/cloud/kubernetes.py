"""One cluster's API: objects as plain mappings, with own timeouts, retries and errors.

Mutating calls are safe to lose the reply of: `create` looks by exact name whose it is, `delete` takes "gone" for done
and never takes what was made anew under the name, `apply` and `patch` say how things shall be and may be said twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tasks.cloud.kubernetes_access import AGENT, Access
from tasks.cloud.kubernetes_errors import (
    AlreadyExists,
    Conflict,
    Expired,
    KubernetesError,
    NotDone,
    NotFound,
    NotServed,
    Unavailable,
)
from tasks.cloud.kubernetes_kinds import (
    ACCESS_REVIEW,
    POD,
    Kind,
    Object,
    known_kind,
    selector,
)
from tasks.cloud.kubernetes_objects import clean, complete, items_of, name_of, ours, what_it_is
from tasks.cloud.kubernetes_transport import APPLY_PATCH, MERGE_PATCH, Ask, Wire, unless_missing, waiting
from tasks.cloud.timing import Timing, even_pauses
from tasks.cloud.waits import tried

_PAGE = 500
_LISTS = 5
"""So often a list is begun that is never read to its end."""
_STRICT = {"fieldManager": AGENT, "fieldValidation": "Strict"}
"""Without the latter a field that is misspelt is dropped in silence."""

Propagation = Literal["Background", "Foreground", "Orphan"]


class Listing(NamedTuple):
    """What was there at one moment; a watch goes on from `version` without a gap."""

    items: Sequence[Object]
    version: str


class Kubernetes:
    """The API of one cluster. Methods raise KubernetesError; `namespace` None is the access's own."""

    def __init__(self, access: Access, *, timing: Timing | None = None, wire: type[Wire] = Wire) -> None:
        self.access = access
        self._timing = timing or Timing()
        self._wire = wire(access, self._timing)

    # What is there

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """Returns an object by its exact name. Raises NotFound."""
        return self._object(
            Ask(f"look at {what_it_is(kind, name)}", "GET", self._path(kind, namespace, name))
        )

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
        """Returns an object by its exact name, or None when it is not there."""
        return unless_missing(lambda: self.get(kind, name, namespace))

    def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | str | None = None,
        fields: Mapping[str, str] | str | None = None,
    ) -> Listing:
        """Returns all objects that have the labels and fields, of a namespace or of ALL_NAMESPACES."""
        for again in reversed(range(_LISTS)):
            try:
                return self._pages(kind, namespace, selector(labels), selector(fields))
            except (
                Expired
            ):  # objects changed so much while it was read page by page that it has to begin again
                if not again:
                    raise
        raise AssertionError("the last time it is raised")

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster knows the kind, in this version."""
        group = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        try:
            found = self._wire.repeated(Ask(f"see whether there are {kind.full_plural}", "GET", group))
        except (NotServed, NotFound):
            return False
        return any(one.get("name") == kind.plural for one in found.get("resources", []))

    def kind_of(self, manifest: Object) -> Kind:
        """Returns the kind of an object, asking the cluster about those that we do not know. Raises NotServed."""
        version, name = str(manifest["apiVersion"]), str(manifest["kind"])
        if known := known_kind(version, name):
            return known
        group, _, short = version.rpartition("/")
        path = f"/apis/{version}" if group else f"/api/{version}"
        found = self._wire.repeated(Ask(f"see how {name} of {version} is served", "GET", path))
        for one in found.get("resources", []):
            if one.get("kind") == name and "/" not in one["name"]:
                return Kind(group, short, name, one["name"], bool(one.get("namespaced")))
        raise NotServed(f"{self.access.name} has no {name} in {version}")

    def now(self) -> float:
        """Returns what time it is in seconds since the epoch by the cluster's clock, as far as it was heard: the times
        in its objects are by that, and ours may be another.
        """
        return time.time() + self._wire.ahead_s

    def version(self) -> str:
        """Returns the version of Kubernetes: `v1.33.4-gke.100`."""
        return str(self._wire.repeated(Ask("ask for its version", "GET", "/version"))["gitVersion"])

    def may(self, verb: str, kind: Kind, *, sub: str = "") -> bool:
        """Whether the cluster would let us, in our namespace: `create` JobSets, say."""
        asked = {"verb": verb, "group": kind.group, "resource": kind.plural, "subresource": sub or None}
        if kind.namespaced:
            asked["namespace"] = self.access.namespace
        body = {
            "apiVersion": ACCESS_REVIEW.api_version,
            "kind": ACCESS_REVIEW.name,
            "spec": {"resourceAttributes": asked},
        }
        doing = f"ask whether we may {verb} {kind.full_plural}"
        answer = self._wire.repeated(Ask(doing, "POST", ACCESS_REVIEW.path(None), body=body))
        return bool(answer.get("status", {}).get("allowed"))

    def log(
        self,
        pod: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        previous: bool = False,
        tail: int | None = None,
        timestamps: bool = False,
    ) -> str:
        """Returns what a container has said so far, at most its last `tail` lines. Following is kubernetes_follow's."""
        params: dict[str, str | int] = {}
        if container:
            params["container"] = container
        if tail is not None:
            params["tailLines"] = tail
        params |= {"previous": "true"} if previous else {}
        params |= {"timestamps": "true"} if timestamps else {}
        return self._wire.text(
            Ask(f"read the log of pod {pod}", "GET", self._path(POD, namespace, pod, "log"), params)
        )

    # What is made and unmade

    def create(self, kind: Kind, manifest: Object, namespace: str | None = None) -> Object:
        """Makes an object and returns it. One that has the name and is of the same lease and ledger is returned.

        Raises AlreadyExists when the name is somebody else's, Going while what has it is being deleted, Refused,
        PermissionDenied, NotServed; `in_doubt` where that is the answer to a second try.
        """
        name, namespace = name_of(manifest), namespace or manifest["metadata"].get("namespace")
        ask = Ask(
            f"make {what_it_is(kind, name)}",
            "POST",
            self._path(kind, namespace),
            _STRICT,
            complete(kind, manifest),
        )

        def found(error: KubernetesError) -> Object | None:
            there = self.find(kind, name, namespace)
            return None if there is None else ours(there, manifest, error)

        in_doubt = False
        try:
            for pause in even_pauses(self._timing, f"kubernetes: {self._wire.called(ask)}"):
                try:
                    return self._object(ask, repeat=False)
                except AlreadyExists as error:
                    if (there := found(error)) is None:  # it went this moment
                        raise
                    return there
                except Unavailable as error:
                    # A reply that was lost says nothing. Nothing is asked for again before it was looked for.
                    if not isinstance(error, NotDone):
                        in_doubt = True
                        if (there := found(error)) is not None:
                            return there
                    if pause is None:
                        raise
                    tried(str(error))
                    time.sleep(waiting(error, pause))
        except KubernetesError as error:
            error.in_doubt = in_doubt
            raise
        raise AssertionError("the last pause is None")

    def try_create(self, kind: Kind, manifest: Object) -> Object:
        """Asks what `create` would make, without making it: all checks of the server and of webhooks are made."""
        name, namespace = name_of(manifest), manifest["metadata"].get("namespace")
        params = {**_STRICT, "dryRun": "All"}
        doing = f"make {what_it_is(kind, name)} (dry run)"
        return self._object(Ask(doing, "POST", self._path(kind, namespace), params, complete(kind, manifest)))

    def apply(
        self, manifest: Object, *, kind: Kind | None = None, dry_run: bool = False, force: bool = True
    ) -> Object:
        """Makes an object be as the manifest says, whether it was there or not, by server-side apply.

        `force`: fields that somebody else manages are taken over; without it that raises Conflict.
        """
        kind = kind or self.kind_of(manifest)
        name, namespace = name_of(manifest), manifest["metadata"].get("namespace")
        params: dict[str, str | bool] = {**_STRICT, "force": "true" if force else "false"}
        params |= {"dryRun": "All"} if dry_run else {}
        doing = f"apply {what_it_is(kind, name)}"
        body = complete(kind, manifest)
        return self._object(Ask(doing, "PATCH", self._path(kind, namespace, name), params, body, APPLY_PATCH))

    def patch(self, kind: Kind, name: str, change: Object, namespace: str | None = None) -> Object:
        """Changes an object by a merge patch: a key with None is removed, a list replaced as a whole.

        With `metadata.resourceVersion` in it, it raises Conflict when the object changed since.
        """
        doing = f"change {what_it_is(kind, name)}"
        path = self._path(kind, namespace, name)
        return self._object(Ask(doing, "PATCH", path, _STRICT, change, MERGE_PATCH))

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: Propagation = "Background",
        grace_s: int | None = None,
    ) -> None:
        """Asks an object to go, without waiting. One that is gone or going is no error.

        `uid`: the very object that is meant; None: the one that has the name now. Another one that gets the name
        meanwhile is never deleted.
        """
        if uid is None:
            there = self.find(kind, name, namespace)
            if there is None:
                return
            uid = str(there["metadata"]["uid"])
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
            "gracePeriodSeconds": grace_s,
        }
        ask = Ask(
            f"delete {what_it_is(kind, name)}", "DELETE", self._path(kind, namespace, name), body=options
        )
        try:
            self._wire.repeated(ask)
        except NotFound:
            return
        except Conflict:
            there = self.find(kind, name, namespace)
            if there is not None and there["metadata"].get("uid") == uid:
                raise  # it is the one that is meant, so something else stands in the way

    # How calls are made

    def _object(self, ask: Ask, *, repeat: bool = True) -> Object:
        answer = self._wire.repeated(ask) if repeat else self._wire.once(ask)
        return clean(answer)

    def _pages(self, kind: Kind, namespace: str | None, labels: str, fields: str) -> Listing:
        params: dict[str, str | int] = {"limit": _PAGE}
        params |= {"labelSelector": labels} if labels else {}
        params |= {"fieldSelector": fields} if fields else {}
        items: list[Object] = []
        path = self._path(kind, namespace)
        while True:
            page = self._wire.repeated(Ask(f"list {kind.full_plural}", "GET", path, params))
            items += items_of(page, kind)
            if not page["metadata"].get("continue"):
                return Listing(items, str(page["metadata"].get("resourceVersion", "")))
            params["continue"] = page["metadata"]["continue"]

    def _path(self, kind: Kind, namespace: str | None, name: str = "", sub: str = "") -> str:
        return kind.path(namespace or self.access.namespace, name, sub)
