"""The commits between two are listed, oldest first, of a folder and of a remote, without their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud.git import fetch_tree
from tasks.cloud.git_log import commits_between
from tasks.config.spec import SourceSpec
from tests.tasks.cloud.test_git import commit, git, sources, upstream  # noqa: F401 (fixtures)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_merge_is_one_step(upstream: Path, sources: Path, scheme: str) -> None:  # noqa: F811
    good = git(upstream, "rev-parse", "v1^{commit}")
    git(upstream, "merge", "--quiet", "--no-ff", "--strategy=ours", "-m", "merged\ttwo", "feat/fast-save")
    bad = commit(upstream, "main-3")
    found = commits_between(f"{scheme}{upstream}", good, bad, sources, say=lambda line: None)
    assert [one.subject for one in found] == ["main-1", "main-2", "merged\ttwo", "main-3"]
    assert (found[0].sha, found[-1].sha) == (good, bad)
    assert found[0].at > 1.7e9


def test_what_is_not_there_or_not_before_is_refused(upstream: Path, sources: Path) -> None:  # noqa: F811
    first, last = git(upstream, "rev-parse", "v1^{commit}"), git(upstream, "rev-parse", "main")
    with pytest.raises(BadInput, match="has no commit 0000"):
        commits_between(str(upstream), "0" * 40, last, sources, say=lambda line: None)
    with pytest.raises(BadInput, match="is no ancestor of"):
        commits_between(str(upstream), last, first, sources, say=lambda line: None)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_shallow_clone_is_refused(upstream: Path, sources: Path, tmp_path: Path, scheme: str) -> None:  # noqa: F811
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{upstream}", "shallow")
    clone = tmp_path / "shallow"
    last = git(clone, "rev-parse", "HEAD")
    with pytest.raises(BadInput, match="is a shallow clone"):
        commits_between(f"{scheme}{clone}", last, last, sources, say=lambda line: None)
    with pytest.raises(BadInput, match="is a shallow clone"):
        fetch_tree(SourceSpec(repo=f"file://{clone}", commit=last[:10]), sources, say=lambda line: None)
