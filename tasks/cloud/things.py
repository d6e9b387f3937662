"""What an environment has beside its cluster, one class per kind: looked at, made, changed and deleted by its API.

A thing is known by scope and name, as its lease writes it down. Its fields are the API's own documents. What kinds
without labels are labelled with stands in their description; a role that is given to somebody has neither.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tasks.cloud.compute import read as read_description
from tasks.cloud.compute import written
from tasks.cloud.container_errors import Busy, NotFound
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.labels import EXPIRES, LEASE, LEASE_REST, LEDGER, OWNER, read_labels
from tasks.cloud.named_parts import with_others
from tasks.cloud.timing import pauses
from tasks.cloud.waits import tried

_LONGEST_DESCRIPTION = 256


@dataclass(frozen=True)
class Thing:
    """One thing as it is. `labels` None: nobody said whose it is."""

    uid: str
    fields: Document
    labels: Mapping[str, str] | None = None


class Sort(Protocol):
    """One kind of things."""

    def look(self, scope: str, name: str) -> Thing | None:
        """Returns the thing, or None where there is none. Raises ContainerError."""

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """Makes it, and waits until it is there. Raises ContainerError, AlreadyExists among others."""

    def delete(self, scope: str, name: str) -> None:
        """Asks it to go, without waiting. Raises ContainerError; NotFound where it is gone."""


@runtime_checkable
class Changeable(Sort, Protocol):
    """One kind of things of which something is changed while they are there."""

    @property
    def in_place(self) -> Sequence[str]:
        """Fields (or what is above them) that the API changes on what is there."""

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """Gives what is there other values of some fields, which are whole at their first level.

        But for lists of named parts: they say those that are to be changed or added, and all others stay.
        """


@dataclass(frozen=True)
class Whose:
    """The lease that something is made under, by its name (all its epochs), and its ledger."""

    lease: str = ""
    ledger: str = ""

    def made(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels say so."""
        told = read_labels(labels or {})
        return told is not None and (told.lease_name, told.ledger_id) == (self.lease, self.ledger)


@runtime_checkable
class Nameless(Sort, Protocol):
    """One kind of things that have no names of their own: several may be called alike, and be called otherwise."""

    def known_by(self, uid: str | None, whose: Whose) -> Nameless:
        """Returns the same for the one of this uid, or, where there is none yet, for those that the lease made."""

    def made(self, scope: str) -> Sequence[Thing]:
        """Returns what the lease made, by its labels. Raises ContainerError."""


@dataclass(frozen=True)
class OfCompute:
    """A kind of Compute Engine. `scope` is the project, or "project/region"."""

    part: str
    in_place: Sequence[str] = ()
    rest: Rest = field(default_factory=lambda: Rest("compute.googleapis.com"))

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort."""
        try:
            told = self.rest.get(f"look at {self._said(name)}", f"{self._folder(scope)}/{self.part}/{name}")
        except NotFound:
            return None
        return Thing(str(told["id"]), told, read_description(str(told.get("description", ""))))

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort."""
        said = {key: value for key, value in fields.items() if value != []}  # to begin with, lists are empty
        body = {**said, "name": name, "description": written(labels)}
        self._send("POST", f"make {self._said(name)}", scope, self.part, body)

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """See Sort. A subnetwork's parts are changed by methods of their own."""
        doing, path, left = f"change {self._said(name)}", f"{self.part}/{name}", dict(fields)
        if "labels" in left:
            left["description"] = written(left.pop("labels"))
        for one, verb in (
            ("ipCidrRange", "expandIpCidrRange"),
            ("privateIpGoogleAccess", "setPrivateIpGoogleAccess"),
        ):
            if self.part == "subnetworks" and one in left:
                self._send("POST", doing, scope, f"{path}/{verb}", {one: left.pop(one)})
        if left:
            self._patch(doing, scope, name, left)

    def _patch(self, doing: str, scope: str, name: str, fields: Document) -> None:
        """Writes fields into what is there now, with the parts of lists that are others'.

        By the mark that it has: one that was changed meanwhile is read again. Routers have none (nor has anything but
        subnetworks): there what others write between the two calls is lost, as Google's own tools have it.
        """
        for pause in pauses(self.rest.timing, f"compute: {doing}"):
            now = self.look(scope, name)
            if now is None:
                raise NotFound(f"cannot {doing}: it is gone")
            body = {field: with_others(now.fields.get(field), value) for field, value in fields.items()}
            mark = {"fingerprint": now.fields["fingerprint"]} if self.part == "subnetworks" else {}
            try:
                self._send("PATCH", doing, scope, f"{self.part}/{name}", {**body, **mark})
                return
            except Busy as error:
                if pause is None:
                    raise
                tried(str(error))
                time.sleep(pause)

    def delete(self, scope: str, name: str) -> None:
        """See Sort."""
        self.rest.send("DELETE", f"delete {self._said(name)}", f"{self._folder(scope)}/{self.part}/{name}")

    def of_network(self, scope: str, network: str) -> Sequence[Document]:
        """Returns the things of this kind that are in a network of a project."""
        project = scope.partition("/")[0]
        found = self.rest.listed(f"list {self.part}", f"{self._folder(scope)}/{self.part}", "items")
        ends = f"/projects/{project}/global/networks/{network}"
        return [one for one in found if str(one.get("network", "")).endswith(ends)]

    def _send(self, method: str, doing: str, scope: str, path: str, body: Document) -> None:
        folder = self._folder(scope)
        operation = self.rest.send(method, doing, f"{folder}/{path}", body)
        self.rest.follow(doing, operation, f"{folder}/operations")

    def _said(self, name: str) -> str:
        return f"{self.part.removesuffix('s')} {name}"

    def _folder(self, scope: str) -> str:
        project, _, region = scope.partition("/")
        return f"compute/v1/projects/{project}/{f'regions/{region}' if region else 'global'}"


@dataclass(frozen=True)
class ServiceAccounts:
    """Service accounts. `scope` is the project."""

    in_place: Sequence[str] = ("displayName", "disabled", "description")
    rest: Rest = field(default_factory=lambda: Rest("iam.googleapis.com"))

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort."""
        try:
            told = self.rest.get(f"look at service account {name}", self._path(scope, name))
        except NotFound:
            return None
        return Thing(str(told["uniqueId"]), told, read_description(str(told.get("description", ""))))

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort."""
        told = {name: value for name, value in fields.items() if name != "disabled"}  # none is, to begin with
        account = {"description": _short(labels), **told}
        body = {"accountId": name, "serviceAccount": account}
        self.rest.send("POST", f"make service account {name}", f"v1/projects/{scope}/serviceAccounts", body)

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """See Changeable. One that somebody disabled is enabled by a method of its own."""
        doing, path, left = f"change service account {name}", self._path(scope, name), dict(fields)
        if "labels" in left:
            left["description"] = _short(left.pop("labels"))
        if "disabled" in left:
            self.rest.send("POST", doing, f"{path}:{'disable' if left.pop('disabled') else 'enable'}")
        if left:
            body = {"serviceAccount": left, "updateMask": ",".join(left)}
            self.rest.send("PATCH", doing, path, body)

    def delete(self, scope: str, name: str) -> None:
        """See Sort."""
        self.rest.send("DELETE", f"delete service account {name}", self._path(scope, name))

    def keys(self, scope: str, name: str) -> Sequence[Document]:
        """Returns the keys of an account that people made; Google's own, which nobody has, are not among them."""
        doing, path = f"list keys of service account {name}", f"{self._path(scope, name)}/keys"
        try:
            told = self.rest.get(doing, f"{path}?keyTypes=USER_MANAGED")
        except NotFound:
            return ()
        keys: Sequence[Document] = told.get("keys", ())
        return keys

    def _path(self, scope: str, name: str) -> str:
        return f"v1/projects/{scope}/serviceAccounts/{name}@{scope}.iam.gserviceaccount.com"


@dataclass(frozen=True)
class Repositories:
    """Repositories of Artifact Registry. `scope` is "project/location"."""

    in_place: Sequence[str] = ("labels",)
    rest: Rest = field(default_factory=lambda: Rest("artifactregistry.googleapis.com"))

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort."""
        try:
            told = self.rest.get(f"look at repository {name}", f"{self._folder(scope)}/{name}")
        except NotFound:
            return None
        return Thing(str(told.get("createTime") or told["name"]), told, told.get("labels", {}))

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort."""
        doing, path = f"make repository {name}", f"{self._folder(scope)}?repositoryId={name}"
        operation = self.rest.send("POST", doing, path, {**fields, "labels": dict(labels)})
        self.rest.follow(doing, operation, "v1")

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """See Changeable."""
        path = f"{self._folder(scope)}/{name}?updateMask={','.join(sorted(fields))}"
        self.rest.send("PATCH", f"change repository {name}", path, fields)

    def delete(self, scope: str, name: str) -> None:
        """See Sort."""
        self.rest.send("DELETE", f"delete repository {name}", f"{self._folder(scope)}/{name}")

    def _folder(self, scope: str) -> str:
        project, _, place = scope.partition("/")
        return f"v1/projects/{project}/locations/{place}/repositories"


def _short(labels: Mapping[str, str]) -> str:
    """Returns labels as the description of a service account, which is short: what is for people alone goes first."""
    kept = dict(labels)
    for key in (OWNER, EXPIRES):
        if len(written(kept)) > _LONGEST_DESCRIPTION:
            kept.pop(key, None)
    return written(kept)


def same_owner(there: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels say that a thing is of just this lease."""
    return bool(there) and all(
        (there or {}).get(key) == labels.get(key) for key in (LEASE, LEASE_REST, LEDGER)
    )


def value_at(fields: Any, path: str) -> Any:
    """Returns what stands at a path of names and numbers in a document; None where there is nothing."""
    for part in path.split("."):
        if isinstance(fields, Sequence) and not isinstance(fields, str) and part.isdecimal():
            fields = fields[int(part)] if int(part) < len(fields) else None
        elif isinstance(fields, Mapping):
            fields = fields.get(part)
        else:
            return None
    return fields
