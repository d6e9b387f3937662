"""What source is wanted is checked before anything is asked of git or the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config.request import RunRequest
from tasks.config.source import ORBAX_REPO, resolve_source, strip_credentials, track_of, valid_ref
from tasks.config.spec import SourceSpec


def resolve(**fields: Any) -> SourceSpec:
    return resolve_source(RunRequest(suite="s", **fields))


def test_nothing_asked_is_the_released_orbax() -> None:
    assert resolve() == SourceSpec()


def test_a_ref_alone_is_one_of_orbax() -> None:
    assert resolve(pr=12).repo == resolve(branch="main").repo == resolve(commit="ABCDEF1").repo == ORBAX_REPO
    assert resolve(commit="ABCDEF1").commit == "abcdef1"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("https://github.com/me/orbax", "https://github.com/me/orbax"),
        ("https://host:8443/orbax.git", "https://host:8443/orbax.git"),
        ("git@github.com:me/orbax.git", "ssh://git@github.com/me/orbax.git"),
        ("ssh://git@host/orbax", "ssh://git@host/orbax"),
        ("file:///srv/orbax", "file:///srv/orbax"),
    ],
)
def test_repositories(written: str, meant: str) -> None:
    assert resolve(repo=written).repo == strip_credentials(written if "://" in written else meant) == meant


def test_a_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orbax").mkdir()
    assert resolve(repo="orbax").repo == resolve(repo="./orbax").repo == str(tmp_path / "orbax")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"repo": "ext::sh -c touch% /tmp/x"}, "remote helpers"),
        ({"repo": "git://host/orbax"}, "not allowed"),
        ({"repo": "http://me:tok3n@host/orbax"}, "not allowed"),
        ({"repo": "https://tok3n@host/orbax"}, "credential helper"),
        ({"repo": "https://me:tok3n@host/orbax"}, "https://host/orbax was given with a password"),
        ({"repo": "https://host/orbax?private_token=tok3n#x"}, "credential helper"),
        ({"repo": "ssh://git:tok3n@host/orbax"}, "ssh://git@host/orbax was given"),
        ({"repo": "--upload-pack=touch /tmp/x"}, "not a repository"),
        ({"repo": "ssh://-oProxyCommand=x/orbax"}, "no valid host"),
        ({"repo": "https:///orbax"}, "no valid host"),
        ({"repo": "google/orbax"}, "write https://github.com/google/orbax"),
        ({"repo": "/not/there"}, "neither a URL nor a folder"),
        ({"repo": "https://host/a\nb"}, "not a repository"),
        ({"branch": "-x"}, "valid branch"),
        ({"branch": "a..b"}, "valid branch"),
        ({"branch": "main", "pr": 3}, "branch and pr exclude each other"),
        ({"commit": "HEAD"}, "not a commit"),
        ({"commit": "abc123"}, "7 to 40"),
        ({"jax_version": "latest"}, "locked, newest, nightly or x.y.z"),
        ({"jax_version": "0.4; rm -rf /"}, "not a JAX version"),
        ({"jax_version": "nightly"}, "--jax-index"),
        ({"jax_index": "https://host/simple"}, "no effect"),
        ({"jax_version": "nightly", "jax_index": "http://host/simple"}, "not safe"),
        ({"jax_version": "nightly", "jax_index": "https://me:tok3n@host/simple"}, "netrc"),
        ({"jax_version": "nightly", "jax_index": "/not/there"}, "neither a URL nor a folder"),
    ],
)
def test_bad_sources_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        resolve(**fields)
    assert told in str(caught.value)
    assert "tok3n" not in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        resolve(repo="/not/there", branch="a b", commit="x", jax_version="?")
    assert len(caught.value.problems) == 5


def test_refs_as_git_sees_them() -> None:
    for good in ("main", "feat/x", "a.b", "v1.2-rc1", "é"):
        assert valid_ref(good), good
    for bad in (
        "",
        "@",
        "-a",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a/",
        "/a",
        "a//b",
        "a.",
        "a@{b",
        "a\\b",
        "a b",
    ):
        assert not valid_ref(bad), bad


def test_nightly_from_a_folder(tmp_path: Path) -> None:
    assert resolve(jax_version="nightly", jax_index=str(tmp_path)).jax_index == str(tmp_path)
    assert resolve(jax_version="Nightly", jax_index="http://127.0.0.1:8/simple").jax_version == "nightly"


@pytest.mark.parametrize(
    ("source", "track"),
    [
        ({}, "released"),
        ({"jax_version": "locked", "repo": None}, "released"),
        ({"jax_version": "nightly"}, "released, JAX nightly"),
        ({"repo": "https://x/orbax", "branch": "main"}, "branch main of https://x/orbax"),
        ({"repo": "/code/orbax"}, "tree of /code/orbax"),
        ({"repo": "https://x/orbax"}, "default branch of https://x/orbax"),
        ({"pr": 12, "jax_version": "newest"}, "pr 12, JAX newest"),
        ({"commit": "abc", "repo": "https://github.com/google/orbax"}, "commit abc"),
    ],
)
def test_a_track_says_which_versions_are_followed(source: dict[str, object], track: str) -> None:
    assert track_of(source) == track
