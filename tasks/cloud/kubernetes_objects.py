"""Objects as they are sent and as they come: completed, told, cleaned, and whether one that is there is ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tasks.cloud.kubernetes_errors import AlreadyExists, Going, KubernetesError
from tasks.cloud.kubernetes_kinds import Kind, Object
from tasks.cloud.labels import LEASE, LEASE_REST, LEDGER, OWNER, SUBMISSION


def ours(there: Object, wanted: Object, error: KubernetesError) -> Object:
    """Returns what is there if it is what we asked for, judged by lease and ledger, or by the submission where there
    is no lease; raises AlreadyExists else.

    One of ours that is being deleted is none that we could use: Going.
    """
    metadata, labels = there["metadata"], wanted["metadata"].get("labels") or {}
    what = f"{there.get('kind', 'object')} {metadata['name']}"
    if metadata.get("deletionTimestamp"):
        raise Going(f"{what} is taken by one that is being deleted") from error
    theirs = metadata.get("labels") or {}
    if LEASE in labels and all(theirs.get(key) == labels.get(key) for key in (LEASE, LEASE_REST, LEDGER)):
        return there
    if SUBMISSION in labels and theirs.get(SUBMISSION) == labels[SUBMISSION]:
        return there
    by = f" by {theirs[OWNER]}'s lease {theirs.get(LEASE)}" if theirs.get(OWNER) else ", and not by this run"
    raise AlreadyExists(f"{what} was made already{by}: choose another name, or delete it") from error


def items_of(page: Object, kind: Kind) -> Iterator[Object]:
    """Yields the objects of a list, each complete: in lists they come without their kind."""
    for item in page.get("items") or []:
        yield {"apiVersion": kind.api_version, "kind": kind.name, **clean(item)}


def clean(item: Any) -> Object:
    """Returns an object without the server's notes on who set which field, which are longer than the rest."""
    found: Object = item
    if "managedFields" in found.get("metadata", {}):
        metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
        return {**found, "metadata": metadata}
    return found


def complete(kind: Kind, manifest: Object) -> Object:
    """Returns a manifest as it is sent: with its kind."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **manifest}


def name_of(manifest: Object) -> str:
    """Returns the name of what is to be made. Raises ValueError where there is none."""
    name = manifest["metadata"].get("name")
    if not name:  # a name that the server chooses could not be looked for when its reply is lost
        raise ValueError("a manifest needs a name")
    return str(name)


def what_it_is(kind: Kind, name: str) -> str:
    """Returns what people read of an object: `JobSet mine`."""
    return f"{kind.name} {name}"
