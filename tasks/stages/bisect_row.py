"""The row of builds between a good and a bad night: from commit to commit, then from one JAX to the next."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput
from tasks.cloud.storage import open_folder, read_json
from tasks.config.request import RunRequest
from tasks.config.source import ORBAX_REPO, resolve_source
from tasks.history.dataset.lines import Shown
from tasks.history.dataset.recorded import Seen
from tasks.stages.files import REQUEST_FILE

JAX = "jax"
COMMIT = "commit"
_FOLLOW = frozenset({"jaxlib", "libtpu"})
"""Versions that come with JAX's own."""


@dataclass(frozen=True)
class Build:
    """What is run: `fields` of a request, `words` for people, and `key` for the names of its runs."""

    words: str
    fields: Mapping[str, str]

    @property
    def key(self) -> str:
        """Returns a short name that is the same whenever the same is asked for."""
        told = ",".join(f"{name}={self.fields[name]}" for name in sorted(self.fields))
        return hashlib.sha256(told.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class Ends:
    """A series with the run that was good and the run that was bad."""

    shown: Shown
    good: Seen
    bad: Seen

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Returns the versions that differ: of each the good and the bad one."""
        good, bad = self.good.versions, self.bad.versions
        return {
            name: (good.get(name, ""), bad.get(name, ""))
            for name in sorted({*good, *bad} - _FOLLOW)
            if good.get(name) != bad.get(name)
        }


def ends_of(shown: Shown, good: str | None, bad: str | None) -> Ends:
    """Returns the nights between which it happened: those named, else those of the latest change for the worse.

    Raises BadInput where there is no such change, or a night has no value that counts.
    """
    of_night = {seen.night: seen for seen in shown.seen if seen.run is not None and not seen.aside}
    one = shown.one
    if bad is None or good is None:
        change = next((made for made in reversed(shown.decisions) if made.told == "regressed"), None)
        if change is None:
            raise BadInput(
                f"{one.id} ({one.name}) never got worse",
                fix="name two nights of it: --good NIGHT --bad NIGHT (slicebench history SERIES lists them)",
            )
        names = [night.name for night in one.nights]
        first = names.index(change.night) - max(1, change.window) + 1
        bad = bad or change.night
        good = good or names[max(0, first - 1)]
    for night in (good, bad):
        if night not in of_night:
            raise BadInput(
                f"{one.id} has no value that counts in {night!r}", fix=f"see slicebench history {one.id}"
            )
    if good >= bad:
        raise BadInput(
            f"the good night, {good}, is not before the bad one, {bad}", fix="swap --good and --bad"
        )
    return Ends(shown, of_night[good], of_night[bad])


def builds_of(
    ends: Ends, commits: Sequence[tuple[str, str]], repo: str | None, jax: Sequence[str]
) -> list[Build]:
    """Returns the builds from the good night's to the bad one's. `commits`: hash and subject, both ends included.

    `jax`: versions of JAX between the two, in order. Commits come first, each with the old JAX, then the new
    JAX with the newest commit. Raises BadInput where nothing that can be chosen differs.
    """
    changed = ends.changed
    versions = _jax_row(ends, changed, jax)
    if len(commits) < 2 and len(versions) < 2:
        raise BadInput(_nothing(ends, changed), fix=_otherwise(changed))
    address = {"repo": repo} if repo and repo != ORBAX_REPO else {}
    old = {"jax_version": versions[0]}
    builds = [
        Build(f"{sha[:12]} {subject}"[:72], {**address, "commit": sha, **old}) for sha, subject in commits
    ]
    newest = {**address, "commit": commits[-1][0]} if commits else {}
    if not builds:
        builds = [Build(f"JAX {versions[0]}", {**newest, **old})]
    return builds + [Build(f"JAX {version}", {**newest, "jax_version": version}) for version in versions[1:]]


def _jax_row(ends: Ends, changed: Mapping[str, tuple[str, str]], between: Sequence[str]) -> list[str]:
    if JAX in changed:
        return [changed[JAX][0], *between, changed[JAX][1]]
    if between:
        raise BadInput("JAX is the same in both nights", fix="leave out --jax")
    return [ends.bad.versions.get(JAX) or "locked"]


def _nothing(ends: Ends, changed: Mapping[str, tuple[str, str]]) -> str:
    where = f"between {ends.good.night} and {ends.bad.night}"
    if not changed:
        return f"no version differs {where}: it is the machine, the storage or chance, and no build can tell"
    told = ", ".join(f"{name} {old or '–'} → {new or '–'}" for name, (old, new) in changed.items())
    return f"what differs {where} cannot be chosen build by build: {told}"


def _otherwise(changed: Mapping[str, tuple[str, str]]) -> str:
    if not changed:
        return "look at the report of either run: host, storage and flags are in it"
    return "name the commits of the two releases: --good-commit SHA --bad-commit SHA"


def commits_of(ends: Ends, good: str | None, bad: str | None) -> tuple[str, str] | None:
    """Returns the commits of both nights: those named, else those that were measured; None where they are the same.

    Raises BadInput where only one is known.
    """
    known = tuple(
        named or (None if (seen.versions.get(COMMIT) in (None, "unknown")) else seen.versions[COMMIT])
        for named, seen in ((good, ends.good), (bad, ends.bad))
    )
    if known[0] == known[1]:
        return None
    if known[0] is None or known[1] is None:
        missing = "good" if known[0] is None else "bad"
        raise BadInput(
            f"the commit of the {missing} night is not known", fix=f"name it: --{missing}-commit SHA"
        )
    return known[0], known[1]


def repo_of(ends: Ends, named: str | None) -> str:
    """Returns the repository whose commits are meant: the one named, else that of the bad night's run."""
    document = read_json(open_folder(ends.bad.origin), REQUEST_FILE) if ends.bad.origin else None
    request = document.get("request") if isinstance(document, dict) else None
    asked = request.get("repo") if isinstance(request, dict) else None
    return (
        resolve_source(RunRequest.model_validate({"suite": "any", "repo": named or asked or ORBAX_REPO})).repo
        or ORBAX_REPO
    )
