"""TensorBoards of Vertex AI: the service numbers them, and what they show as their name can be anybody's, or changed.

So one is known by its number, or, before that is written down, by the lease in its labels. Its name counts only where
no lease has one: what was there before is named by people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tasks.cloud.container_errors import NotFound
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.labels import LEASE
from tasks.cloud.things import Thing, Whose
from tasks.cloud.timing import Timing


@dataclass(frozen=True)
class Tensorboards:
    """See Nameless. `scope` is "project/location", `name` what it shows; `uid` and `whose` say which one is meant."""

    timing: Timing | None = None
    uid: str = ""
    whose: Whose = field(default_factory=Whose)
    in_place: Sequence[str] = ("displayName", "labels")

    def known_by(self, uid: str | None, whose: Whose) -> Tensorboards:
        """See Nameless."""
        return replace(self, uid=uid or "", whose=whose)

    def look(self, scope: str, name: str) -> Thing | None:
        """See Sort. Of those that only show the name, one that a lease made comes first."""
        if (numbered := self._numbered(scope)) is not None:
            return numbered
        there = self._all(scope)
        if made := [one for one in there if self.whose.made(one.labels)]:
            return made[0]
        alike = [one for one in there if one.fields.get("displayName") == name]
        return min(alike, key=lambda one: LEASE not in (one.labels or {}), default=None)

    def made(self, scope: str) -> Sequence[Thing]:
        """See Nameless."""
        return [one for one in self._all(scope) if self.whose.made(one.labels)]

    def make(self, scope: str, name: str, fields: Document, labels: Mapping[str, str]) -> None:
        """See Sort."""
        doing, body = f"make TensorBoard {name}", {**fields, "labels": dict(labels)}
        operation = self._rest(scope).send("POST", doing, self._folder(scope), body)
        self._rest(scope).follow(doing, operation, "v1")

    def change(self, scope: str, name: str, fields: Document, there: Thing) -> None:
        """See Changeable."""
        doing, path = f"change TensorBoard {name}", f"v1/{there.uid}?updateMask={','.join(sorted(fields))}"
        operation = self._rest(scope).send("PATCH", doing, path, fields)
        self._rest(scope).follow(doing, operation, "v1")

    def delete(self, scope: str, name: str) -> None:
        """See Sort. Only what is known to be meant goes: not one that shows the name."""
        numbers = [self.uid] if self.uid else [one.uid for one in self.made(scope)]
        for number in numbers:
            self._rest(scope).send("DELETE", f"delete TensorBoard {name}", f"v1/{number}")

    def _numbered(self, scope: str) -> Thing | None:
        if not self.uid:
            return None
        try:
            told = self._rest(scope).get(f"look at TensorBoard {self.uid}", f"v1/{self.uid}")
        except NotFound:
            return None
        return _thing(told)

    def _all(self, scope: str) -> list[Thing]:
        doing = f"look for TensorBoards in {scope.partition('/')[2]}"
        return [_thing(one) for one in self._rest(scope).listed(doing, self._folder(scope), "tensorboards")]

    def _rest(self, scope: str) -> Rest:
        return Rest(f"{scope.partition('/')[2]}-aiplatform.googleapis.com", timing=self.timing)

    def _folder(self, scope: str) -> str:
        project, _, place = scope.partition("/")
        return f"v1/projects/{project}/locations/{place}/tensorboards"


def _thing(told: Document) -> Thing:
    return Thing(str(told["name"]), told, told.get("labels", {}))
