"""Resolves what code is to be measured: repository or local path, branch, pull request or commit, and JAX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from runtime.contract.errors import BadInput, Problem
from runtime.contract.nearest import nearest
from tasks.config.request import RunRequest
from tasks.config.spec import SourceSpec

ORBAX_REPO = "https://github.com/google/orbax"
"""Where a branch, pull request or commit is looked for when no repository is named."""

_PROTOCOLS = ("https", "ssh", "file")
_SCP_LIKE = re.compile(r"(?P<host>(?:[\w.-]+@)?[\w.-]+):(?P<path>(?!/)[^:\s]+)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_VERSION = re.compile(r"\d+(\.\d+){1,3}((a|b|rc)\d+)?(\.dev\d+)?")
_NOT_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


class Words(NamedTuple):
    """What those who write a source call the locked JAX, and what they do about an index without effect or none."""

    locked: str
    no_effect: str
    nightlies: str


FLAGS = Words("locked", "add --jax-version nightly, or x.y.z", "name theirs with --jax-index")


def resolve_source(request: RunRequest, words: Words = FLAGS) -> SourceSpec:
    """Checks the source fields of a request, all of them, without asking git or the network.

    A path becomes absolute, `git@host:path` becomes an ssh:// URL. Raises BadInput with every problem found, told in
    `words`.
    """
    problems = [*_ref_problems(request), *_jax_problems(request, words)]
    repo = request.repo
    if repo is not None:
        try:
            repo = _checked_repo(repo)
        except BadInput as error:
            problems += error.problems
    elif request.branch or request.pr or request.commit:
        repo = ORBAX_REPO
    if problems:
        raise BadInput(problems)
    return SourceSpec(
        repo=repo,
        branch=request.branch,
        pr=request.pr,
        commit=request.commit.lower() if request.commit else None,
        jax_version=request.jax_version.lower(),
        jax_index=_absolute_index(request.jax_index),
    )


def track_of(source: Mapping[str, Any]) -> str:
    """Returns which versions the resolved source fields of a request follow: in the history, runs of one track compare.

    What the track names may move from night to night, as a branch does.
    """
    repo, jax = source.get("repo"), source.get("jax_version") or "locked"
    what = next(
        (f"{kind} {source[kind]}" for kind in ("pr", "commit", "branch") if source.get(kind)),
        ("tree" if is_local(repo) else "default branch") if repo else "released",
    )
    told = what if repo in (None, "", ORBAX_REPO) else f"{what} of {repo}"
    return told if jax == "locked" else f"{told}, JAX {jax}"


def is_local(repo: str) -> bool:
    """Tells whether a resolved `repo` is a path on this machine."""
    return not _URL.match(repo)


def strip_credentials(url: str) -> str:
    """Returns a URL without password, query and fragment, fit to be shown; anything else as it is."""
    if not _URL.match(url):
        return url
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    # An ssh user is part of the address and no secret, unlike everything else that can stand there.
    keep = userinfo.partition(":")[0] + at if parts.scheme == "ssh" else ""
    return urlunsplit((parts.scheme, keep + host, parts.path, "", ""))


def valid_ref(name: str) -> bool:
    """Tells whether git takes `name` for a branch. Source: git-check-ref-format(1)."""
    components = name.split("/")
    return (
        bool(name)
        and name != "@"
        and not name.startswith("-")
        and not name.endswith(".")
        and not _NOT_IN_REF.search(name)
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in components)
    )


def _ref_problems(request: RunRequest) -> Iterator[Problem]:
    fields = {"branch": request.branch, "pr": request.pr, "commit": request.commit}
    given = [name for name, value in fields.items() if value is not None]
    if len(given) > 1:
        yield _error(f"{' and '.join(given)} exclude each other", "give one of them")
    if request.branch is not None and not valid_ref(request.branch):
        yield _error(f"{request.branch!r} is not a valid branch name", "see git help check-ref-format")
    if request.commit is not None and not _COMMIT.fullmatch(request.commit.lower()):
        yield _error(f"{request.commit!r} is not a commit", "write 7 to 40 hexadecimal digits")


def _jax_problems(request: RunRequest, words: Words) -> Iterator[Problem]:
    version, index = request.jax_version.lower(), request.jax_index
    if version not in ("locked", "newest", "nightly") and not _VERSION.fullmatch(version):
        near = nearest(version, (words.locked, "newest", "nightly"))
        meant = f"did you mean {near}? " if near else ""
        yield _error(
            f"{request.jax_version!r} is not a JAX version",
            f"{meant}write {words.locked}, newest, nightly or x.y.z",
        )
    if version == "nightly" and index is None:
        yield _error("JAX nightlies are not in the usual package index", words.nightlies)
    if version == "locked" and index is not None:
        yield _error(f"jax_index has no effect on the {words.locked} JAX", words.no_effect)
    if index is None:
        return
    if strip_credentials(index) != index:
        yield _error("jax_index holds a password", "put it into ~/.netrc, and leave it out of the URL")
    elif _URL.match(index):
        parts = urlsplit(index)
        loopback = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
        if parts.scheme not in ("https", "file") and not loopback:
            yield _error(f"jax_index {index}: {parts.scheme}:// is not safe", "use https:// or a folder")
    elif not Path(index).expanduser().is_dir():
        yield _error(
            f"jax_index {index} is neither a URL nor a folder", "write https://… or a folder of wheels"
        )


def _checked_repo(repo: str) -> str:
    if not repo or repo.startswith("-") or re.search(r"[\x00-\x1f\x7f]", repo):
        raise BadInput(f"{repo!r} is not a repository", fix="write a URL or a path")
    if "::" in repo.split("/")[0]:
        raise BadInput(f"{repo}: git's remote helpers can run any command", fix="use https, ssh or file")
    path = Path(repo).expanduser()
    if path.is_dir():
        return str(path.resolve())
    if _URL.match(repo):
        return _checked_url(repo)
    scp_like = _SCP_LIKE.fullmatch(repo)
    if scp_like and "@" in repo:
        return f"ssh://{scp_like['host']}/{scp_like['path']}"
    fix = "write https://host/owner/name, or the path of a folder that is there"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        fix = f"write https://github.com/{repo}, or the path of a folder that is there"
    raise BadInput(f"{repo} is neither a URL nor a folder", fix=fix)


def _checked_url(url: str) -> str:
    parts, shown = urlsplit(url), strip_credentials(url)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    if scheme not in _PROTOCOLS:
        raise BadInput(f"{shown}: {scheme}:// is not allowed", fix="use https, ssh or file")
    if host.startswith("-") or (scheme != "file" and not host):
        raise BadInput(f"{shown} names no valid host", fix="write https://host/owner/name")
    if shown != url:
        # It would end up in the run's parameters, in Prefect's database and in the process table.
        raise BadInput(
            f"{shown} was given with a password, token or query",
            fix="leave that out, and let git find it: ~/.netrc, a credential helper or an SSH key",
        )
    return url


def _absolute_index(index: str | None) -> str | None:
    if index is None or _URL.match(index):
        return index
    return str(Path(index).expanduser().resolve())


def _error(what: str, fix: str) -> Problem:
    return Problem("error", None, what, fix=fix)
