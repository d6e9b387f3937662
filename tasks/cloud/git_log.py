"""Lists the commits between two, without fetching a file of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.cloud.git import Say, fetch_names, mirror_of, refuse_shallow
from tasks.cloud.git_command import FETCH_S, checked, git
from tasks.cloud.locks import locked
from tasks.config.source import is_local
from tasks.config.spec import SourceSpec


@dataclass(frozen=True)
class Logged:
    """A commit: its full hash, the first line of its message, and when it was committed, seconds since the epoch."""

    sha: str
    subject: str
    at: float


def commits_between(repo: str, good: str, bad: str, sources: Path, *, say: Say) -> list[Logged]:
    """Returns the commits from `good` to `bad`, both included, oldest first, along first parents.

    What a merge brought in is in its merge commit: each step is what the branch was at some time. Raises BadInput where
    one of them does not exist or `good` is no ancestor of `bad`, InfrastructureError when the remote fails.
    """
    source = SourceSpec(repo=repo)
    refuse_shallow(source)
    if is_local(repo):
        return _between(Path(repo), repo, good, bad)
    mirror = mirror_of(repo, sources)
    with locked(mirror.with_suffix(".lock"), f"listing commits of {repo}", say=say, timeout_s=FETCH_S):
        return _between(fetch_names(source, mirror), repo, good, bad)


def _between(folder: Path, repo: str, good: str, bad: str) -> list[Logged]:
    for sha in (good, bad):
        if git(folder, "rev-parse", "--verify", "--quiet", f"{sha}^{{commit}}").code != 0:
            raise BadInput(
                f"{repo} has no commit {sha}", fix="is it on a branch, a tag or a pull request there?"
            )
    if git(folder, "merge-base", "--is-ancestor", good, bad).code != 0:
        raise BadInput(
            f"{good[:12]} is no ancestor of {bad[:12]} in {repo}: there is no row of commits between them",
            fix="name two commits of one branch with --good and --bad",
        )
    layout = "--format=%H%x09%ct%x09%s"
    told = checked(git(folder, "log", "--first-parent", "--reverse", layout, f"{good}..{bad}"), repo)
    first = checked(git(folder, "log", "-1", layout, good), repo)
    return [_logged(line) for line in (*first.text.splitlines(), *told.text.splitlines()) if line]


def _logged(line: str) -> Logged:
    sha, at, subject = line.split("\t", 2)
    return Logged(sha, subject, float(at))
