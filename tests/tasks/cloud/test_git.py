"""Sources come from real repositories: branch, tag, pull request, commit, fork, and local trees."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.git import fetch_tree, known_tree, resolve_commit
from tasks.cloud.trees import Tree, prune_trees
from tasks.config.spec import SourceSpec


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, version: str) -> str:
    (folder / "checkpoint" / "orbax_fake.py").write_text(f"VERSION = {version!r}\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", version)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "up stream"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "pyproject.toml").write_text("[project]\nname = 'orbax-checkpoint'\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "main-1")
    git(folder, "tag", "--annotate", "-m", "first", "v1")
    git(folder, "checkout", "--quiet", "-b", "feat/fast-save")
    commit(folder, "feature")
    git(folder, "update-ref", "refs/pull/7/head", "HEAD")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, "main-2")
    return folder


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    return tmp_path / "sources"


def fetch(sources: Path, repo: Path | str, **ref: object) -> Tree:
    spec = SourceSpec(repo=str(repo), **ref)  # type: ignore[arg-type]
    return fetch_tree(spec, sources, say=lambda line: None)


def known(sources: Path, repo: Path, **ref: object) -> Tree | None:
    return known_tree(SourceSpec(repo=str(repo), **ref), sources)  # type: ignore[arg-type]


def version(tree: Tree) -> str:
    return (tree.folder / "orbax_fake.py").read_text()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_every_kind_of_ref(upstream: Path, sources: Path, scheme: str) -> None:
    repo = f"{scheme}{upstream}".replace(" ", "%20") if scheme else str(upstream)
    branch = fetch(sources, repo, branch="feat/fast-save")
    assert "feature" in version(branch) and branch.ref == "refs/heads/feat/fast-save"
    pull = fetch(sources, repo, pr=7)
    assert pull.commit == branch.commit and pull.ref == "refs/pull/7/head" and pull.digest == branch.digest
    tag = fetch(sources, repo, branch="v1")
    assert "main-1" in version(tag) and tag.commit == git(upstream, "rev-parse", "v1^{commit}")
    full = fetch(sources, repo, commit=tag.commit)
    assert full.digest == tag.digest
    short = fetch(sources, repo, commit=git(upstream, "rev-parse", "main")[:9])
    assert short.commit == git(upstream, "rev-parse", "main") and "main-2" in version(short)
    if scheme:
        assert fetch(sources, repo).commit == short.commit


def test_a_branch_that_moved_is_fetched_anew(upstream: Path, sources: Path) -> None:
    assert known(sources, upstream, branch="main") is None
    before = fetch(sources, upstream, branch="main")
    sha = commit(upstream, "main-3")
    after = fetch(sources, upstream, branch="main")
    assert after.commit == sha != before.commit
    assert "main-3" in version(after) and "main-2" in version(before)
    assert known(sources, upstream, branch="main") == after


def test_a_fork_is_its_own_repository(upstream: Path, sources: Path, tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    git(tmp_path, "clone", "--quiet", str(upstream), str(fork))
    sha = commit(fork, "forked")
    assert "forked" in version(fetch(sources, fork, commit=sha))
    with pytest.raises(BadInput, match=r"no commit.*name the fork with --repo"):
        fetch(sources, upstream, commit=sha)
    with pytest.raises(BadInput, match="no commit"):
        fetch(sources, upstream, commit=sha[:8])


def test_what_does_not_exist_is_told_with_the_nearest(upstream: Path, sources: Path) -> None:
    with pytest.raises(BadInput, match=r"no branch 'feat/fast-sav'.*nearest: feat/fast-save"):
        fetch(sources, upstream, branch="feat/fast-sav")
    with pytest.raises(BadInput, match=r"no pull request 8.*nearest: 7"):
        fetch(sources, upstream, pr=8)
    with pytest.raises(InfrastructureError, match="is the address right"):
        fetch(sources, f"file://{upstream}-absent", branch="main")
    with pytest.raises(BadInput, match=r"no pyproject\.toml"):
        fetch(sources, sources.parent)


def test_a_clean_local_tree_is_the_commit(upstream: Path, sources: Path) -> None:
    local = fetch(sources, upstream)
    assert local.dirty is False and local.commit == git(upstream, "rev-parse", "main")
    assert local.digest == fetch(sources, upstream, branch="main").digest
    assert known(sources, upstream) == local


def test_a_dirty_local_tree_is_taken_as_it_lies(upstream: Path, sources: Path) -> None:
    clean = fetch(sources, upstream)
    (upstream / "checkpoint" / "orbax_fake.py").write_text("VERSION = 'dirty'\n")
    (upstream / "checkpoint" / "new.py").write_text("")
    (upstream / "checkpoint" / "noise.log").write_text("ignored")
    dirty = fetch(sources, upstream)
    assert dirty.dirty is True and dirty.commit == clean.commit and dirty.digest != clean.digest
    assert sorted(path.name for path in dirty.folder.iterdir()) == [
        "new.py",
        "orbax_fake.py",
        "pyproject.toml",
    ]
    (upstream / "checkpoint" / "noise.log").write_text("still ignored")
    assert known(sources, upstream) == dirty
    (upstream / "checkpoint" / "new.py").chmod(0o755)
    assert known(sources, upstream) is None
    (upstream / "checkpoint" / "new.py").unlink()
    (upstream / "checkpoint" / "orbax_fake.py").unlink()
    assert [path.name for path in fetch(sources, upstream).folder.iterdir()] == ["pyproject.toml"]


def test_a_repository_that_cannot_be_reached_is_told_with_what_can_be_done(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        repo = f"https://127.0.0.1:{server.getsockname()[1]}/orbax.git"
        monkeypatch.setattr("tasks.cloud.git.ASK_S", 1.0)
        with pytest.raises(
            InfrastructureError, match="cannot be reached: it did not answer within 1 s; is the "
        ):
            fetch(sources, repo)
    monkeypatch.undo()
    with pytest.raises(
        InfrastructureError, match=r"cannot be reached: Failed to connect .*--repo PATH"
    ) as refusal:
        fetch(sources, repo)
    assert "may you read it" not in str(refusal.value)


def test_a_tree_without_git(sources: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "__pycache__").mkdir(parents=True)
    (plain / "pyproject.toml").write_text("")
    (plain / "__pycache__" / "x.pyc").write_text("")
    tree = fetch(sources, plain)
    assert tree.commit is None and [path.name for path in tree.folder.iterdir()] == ["pyproject.toml"]
    (plain / "escape").symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="leads out of the tree"):
        fetch(sources, plain)


def test_links_out_of_a_fetched_tree_are_refused(upstream: Path, sources: Path) -> None:
    (upstream / "checkpoint" / "escape").symlink_to("../../../../etc/passwd")
    commit(upstream, "hostile")
    with pytest.raises(BadInput, match="not safe to unpack"):
        fetch(sources, upstream, branch="main")
    assert not any(path.name.startswith(".new-") for path in (sources / "trees").iterdir())


def _fetch_main(repo: str, sources: str) -> str:
    return fetch_tree(SourceSpec(repo=repo, branch="main"), Path(sources), say=print).digest


def test_many_fetch_at_once(upstream: Path, sources: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        digests = pool.starmap(_fetch_main, [(str(upstream), str(sources))] * 4)
    assert len(set(digests)) == 1


def test_surroundings_do_not_lead_git_astray(
    upstream: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
    assert resolve_commit(SourceSpec(repo=str(upstream), branch="main")).ref == "refs/heads/main"
    assert fetch(sources, upstream).commit is not None


def test_trees_that_nobody_uses_are_deleted(upstream: Path, sources: Path) -> None:
    used = fetch(sources, upstream, branch="main")
    unused = fetch(sources, upstream, branch="v1")
    for folder in (used.folder, unused.folder):
        os.utime(folder, (1, 1))
    fetch(sources, upstream, branch="main")
    prune_trees(sources, older_than_s=3600)
    assert used.folder.is_dir() and not unused.folder.exists()
    assert known(sources, upstream, branch="v1") is None
    assert fetch(sources, upstream, branch="v1").digest == unused.digest
