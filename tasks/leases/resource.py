"""ResourceRef: one thing that exists outside, by the names that its inventory knows it by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResourceRef:
    """One thing outside. `ours` is false for what was there before: adopted, never deleted.

    `scope` is where the name counts: a host, a zone, a namespace. `uid` is None while only the intent to
    make it is known. `dead_man` says what ends it when everybody else is dead, "none" where nothing does.
    """

    kind: str
    scope: str
    name: str
    uid: str | None = None
    ours: bool = True
    dead_man: str = "none"
