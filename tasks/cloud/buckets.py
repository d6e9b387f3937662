"""Buckets of Cloud Storage as things of an environment: made, changed, emptied, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tasks.cloud.container_errors import NotFound
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.things import Thing


@dataclass(frozen=True)
class Buckets:
    """See Sort. `scope` is the project; names are the whole world's."""

    in_place: Sequence[str] = ("storageClass", "versioning", "iamConfiguration", "labels")
    rest: Rest = field(default_factory=lambda: Rest("storage.googleapis.com"))

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort. Raises PermissionDenied for one of a project that we may not look into."""
        try:
            told = self.rest.get(f"look at bucket {name}", f"storage/v1/b/{name}")
        except NotFound:
            return None
        return Thing(f"{told.get('timeCreated', '')}", told, told.get("labels", {}))

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort."""
        body = {**fields, "name": name, "labels": dict(labels)}
        self.rest.send("POST", f"make bucket {name}", f"storage/v1/b?project={scope}", body)

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """See Changeable."""
        self.rest.send("PATCH", f"change bucket {name}", f"storage/v1/b/{name}", fields)

    def delete(self, scope: str, name: str) -> None:
        """See Sort. One that is not empty is refused."""
        self.rest.send("DELETE", f"delete bucket {name}", f"storage/v1/b/{name}")

    def is_empty(self, name: str) -> bool:
        """Whether there is no object in a bucket, nor one that was written over. Raises NotFound."""
        path = f"storage/v1/b/{name}/o?versions=true&maxResults=1"
        told = self.rest.get(f"look into bucket {name}", path)
        return not told.get("items")

    def empty(self, name: str) -> None:
        """Deletes all objects of a bucket, with what was written over."""
        for one in self.rest.listed(
            f"look into bucket {name}", f"storage/v1/b/{name}/o?versions=true", "items"
        ):
            path = f"storage/v1/b/{name}/o/{quote(str(one['name']), safe='')}?generation={one['generation']}"
            try:
                self.rest.send("DELETE", f"delete {one['name']} in bucket {name}", path)
            except NotFound:
                continue
