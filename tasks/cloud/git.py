"""Fetches exactly one commit of a repository, and takes a local tree as it lies there."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.git_command import ASK_S, FETCH_S, ask_remote, checked, git, url_of
from tasks.cloud.local_storage import replacing
from tasks.cloud.locks import locked
from tasks.cloud.trees import (
    WORKING_TREE,
    Tree,
    copy_files,
    digest,
    digest_of,
    files_below,
    package_folder,
    put,
    scratch_folder,
    unpack,
)
from tasks.config.source import is_local
from tasks.config.spec import SourceSpec

Say = Callable[[str], None]

_FULL_COMMIT = 40
_MISSING = re.compile(
    r"not our ref|couldn't find remote ref|unadvertised object|no such remote ref", re.IGNORECASE
)


@dataclass(frozen=True)
class Commit:
    """What a ref meant when we asked: the ref as the remote spells it, and the full hash."""

    ref: str
    sha: str


def resolve_commit(source: SourceSpec) -> Commit:
    """Asks the remote what branch, tag, pull request or commit is meant; fetches nothing.

    A shortened commit stays as it is: only a fetch can complete it. Raises BadInput, naming the nearest, for
    a ref that does not exist, InfrastructureError when the remote cannot be asked.
    """
    if source.commit is not None:
        return Commit(source.commit, source.commit)
    if source.pr is not None:
        ref = f"refs/pull/{source.pr}/head"
        found = _remote_refs(source, ref)
        if ref not in found:
            raise _no_such_pr(source)
        return Commit(ref, found[ref])
    if source.branch is None:
        found = _remote_refs(source, "HEAD")
        if "HEAD" not in found:
            raise BadInput(f"{source.repo} is empty", fix="name a repository with commits")
        return Commit("HEAD", found["HEAD"])
    names = [f"refs/heads/{source.branch}", f"refs/tags/{source.branch}^{{}}", f"refs/tags/{source.branch}"]
    found = _remote_refs(source, *names)
    for name in names:
        if name in found:
            return Commit(name.removesuffix("^{}"), found[name])
    raise _no_such_branch(source)


def fetch_tree(source: SourceSpec, sources: Path, *, say: Say) -> Tree:
    """Brings the wanted tree into the folder `sources` and returns it; what is there is not fetched again.

    Raises BadInput for what does not exist or is no package, InfrastructureError when remote or disk fail.
    """
    assert source.repo is not None
    if _wants_working_tree(source):
        return _take_local(Path(source.repo), sources)
    commit = resolve_commit(source)
    mirror = mirror_of(source.repo, sources)
    shown = f"{source.repo} at {commit.sha[:12]}"
    with locked(mirror.with_suffix(".lock"), f"fetching {shown}", say=say, timeout_s=FETCH_S):
        sha = _fetch(source, commit, mirror, say, shown)
        folder, content = _export(mirror, sha, sources, shown)
    return Tree(folder, content, source.repo, commit.ref, sha, dirty=False)


def known_tree(source: SourceSpec, sources: Path) -> Tree | None:
    """Returns what `fetch_tree` would, when all of it is there already; fetches and copies nothing."""
    assert source.repo is not None
    if _wants_working_tree(source):
        repo = Path(source.repo)
        folder, names = _local_files(repo)
        content, ref = digest_of(folder, names), WORKING_TREE
        sha, dirty = _state_of(repo, folder)
    else:
        commit = resolve_commit(source)
        note = _note(sources, commit.sha)
        if not note.is_file():
            return None
        content, ref, sha, dirty = note.read_text(), commit.ref, commit.sha, False
    tree = Tree(sources / "trees" / content, content, source.repo, ref, sha, dirty)
    return tree if tree.folder.is_dir() else None


def _take_local(repo: Path, sources: Path) -> Tree:
    folder, names = _local_files(repo)
    with scratch_folder(sources / "trees") as new:
        # Copied first and hashed afterwards: an editor may be at work.
        copy_files(folder, names, new)
        content = digest(new)
        put(new, sources / "trees" / content)
    sha, dirty = _state_of(repo, folder)
    return Tree(sources / "trees" / content, content, str(repo), WORKING_TREE, sha, dirty)


def _wants_working_tree(source: SourceSpec) -> bool:
    return is_local(source.repo or "") and not (source.branch or source.pr or source.commit)


def _state_of(repo: Path, folder: Path) -> tuple[str | None, bool]:
    """Returns the commit that is checked out, if any, and whether the package differs from it."""
    if not _is_git(repo):
        return None, False
    head = git(repo, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    changes = checked(git(repo, "status", "--porcelain", "--", str(folder)), repo).output
    return (head.text.strip() if head.code == 0 else None), bool(changes)


def _local_files(repo: Path) -> tuple[Path, list[str]]:
    folder = repo / package_folder(repo, str(repo))
    if not _is_git(repo):
        return folder, files_below(folder)
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
    names = [os.fsdecode(name) for name in checked(listed, repo).output.split(b"\0") if name]
    # Deleted files are still listed; a folder is a submodule, which is no part of the package.
    files = [name for name in names if (folder / name).is_symlink() or (folder / name).is_file()]
    # None at all: the folder only lies within somebody's repository, which ignores it.
    return folder, files or files_below(folder)


def _is_git(repo: Path) -> bool:
    return git(repo, "rev-parse", "--is-inside-work-tree").text.strip() == "true"


def _fetch(source: SourceSpec, commit: Commit, mirror: Path, say: Say, shown: str) -> str:
    if not (mirror / "HEAD").is_file():
        checked(git(None, "init", "--quiet", "--bare", "--", str(mirror)), mirror)
    have = git(mirror, "rev-parse", "--verify", "--quiet", f"{commit.sha}^{{commit}}")
    if have.code == 0:
        return have.text.strip()
    say(f"fetching {shown}")
    sha = commit.sha if len(commit.sha) == _FULL_COMMIT else _complete(source, commit.sha, mirror)
    depth = ["--depth=1", "--no-tags"]
    fetched = ask_remote(
        source, mirror, "fetch", "--quiet", *depth, "--", url_of(source), sha, timeout_s=FETCH_S
    )
    if fetched.code != 0 and _MISSING.search(fetched.errors):
        raise _no_such_commit(source, sha)
    checked(fetched, source.repo)
    return checked(git(mirror, "rev-parse", "--verify", f"{sha}^{{commit}}"), mirror).text.strip()


def _complete(source: SourceSpec, short: str, mirror: Path) -> str:
    """Returns the hash that a shortened one stands for, among the commits of branches and pull requests."""
    names = fetch_names(source, mirror)
    found = git(names, "rev-parse", "--verify", "--quiet", f"{short}^{{commit}}")
    if found.code != 0:
        raise _no_such_commit(source, short)
    return found.text.strip()


def fetch_names(source: SourceSpec, mirror: Path) -> Path:
    """Brings all commits of branches, tags and pull requests, without files, beside a mirror; returns where.

    Raises BadInput for a shallow clone: git, which takes what it was not sent for something to fetch when it is
    needed, would ask a shallow one for what it does not have without end, each time by one more process.
    """
    refuse_shallow(source)
    # Not into the mirror: it must not believe that it has commits whose files were left out.
    names = mirror.with_suffix(".names.git")
    if not (names / "HEAD").is_file():
        checked(git(None, "init", "--quiet", "--bare", "--", str(names)), names)
    specs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+refs/pull/*/head:refs/pull/*")
    tell = ("--quiet", "--filter=tree:0")
    fetched = ask_remote(source, names, "fetch", *tell, "--", url_of(source), *specs, timeout_s=FETCH_S)
    checked(fetched, source.repo)
    return names


def refuse_shallow(source: SourceSpec) -> None:
    """Raises BadInput for a clone on this machine whose history was cut off."""
    path = (source.repo or "").removeprefix("file://")
    if not Path(path).is_dir():
        return  # a server: none of them serves a shallow clone
    if git(Path(path), "rev-parse", "--is-shallow-repository").text.strip() == "true":
        raise BadInput(
            f"{source.repo} is a shallow clone: what was before it is not known there",
            fix=f"git -C {shlex.quote(path)} fetch --unshallow, or name the repository that it was cloned from",
        )


def mirror_of(repo: str, sources: Path) -> Path:
    """Returns where what was fetched of a repository is kept."""
    return sources / f"{hashlib.sha256(repo.encode()).hexdigest()[:16]}.git"


def _export(mirror: Path, sha: str, sources: Path, shown: str) -> tuple[Path, str]:
    note = _note(sources, sha)
    if note.is_file():
        content = note.read_text()
        folder = sources / "trees" / content
        if folder.is_dir():
            os.utime(folder)  # as long as it is used it is kept
            return folder, content
    with scratch_folder(sources / "trees") as new:
        archive = new / "tree.tar"
        with archive.open("wb") as file:
            packed = git(mirror, "archive", "--format=tar", sha, timeout_s=FETCH_S, stdout=file.fileno())
        checked(packed, shown)
        unpack(archive, new / "tree")
        package = new / "tree" / package_folder(new / "tree", shown)
        content = digest(package)
        put(package, sources / "trees" / content)
    with replacing(note) as file:
        file.write(content.encode())
    return sources / "trees" / content, content


def _note(sources: Path, sha: str) -> Path:
    return sources / "commits" / sha


def _remote_refs(source: SourceSpec, *patterns: str) -> dict[str, str]:
    asked = ask_remote(source, None, "ls-remote", "--quiet", "--", url_of(source), *patterns, timeout_s=ASK_S)
    lines = checked(asked, source.repo).text.splitlines()
    return {ref: sha for sha, _, ref in (line.partition("\t") for line in lines)}


def _no_such_branch(source: SourceSpec) -> BadInput:
    refs = _remote_refs(source, "refs/heads/*", "refs/tags/*")
    names = sorted({re.sub(r"^refs/(heads|tags)/", "", ref).removesuffix("^{}") for ref in refs})
    near = difflib.get_close_matches(source.branch or "", names, n=3)
    there = f"there are: {', '.join(names[:5])}" if names else "it has no branches at all"
    fix = f"nearest: {', '.join(near)}" if near else there
    return BadInput(f"{source.repo} has no branch {source.branch!r}", fix=fix)


def _no_such_pr(source: SourceSpec) -> BadInput:
    refs = _remote_refs(source, "refs/pull/*/head")
    numbers = sorted(int(ref.split("/")[2]) for ref in refs)
    near = sorted(sorted(numbers, key=lambda number: abs(number - (source.pr or 0)))[:3])
    fix = (
        f"nearest: {', '.join(map(str, near))}"
        if near
        else "it has no pull requests; name the branch instead"
    )
    return BadInput(f"{source.repo} has no pull request {source.pr}", fix=fix)


def _no_such_commit(source: SourceSpec, sha: str) -> BadInput:
    return BadInput(
        f"{source.repo} has no commit {sha}",
        fix="is it pushed? For a commit on a fork, name the fork with --repo",
    )
