"""Manifests are fetched, held against their hash, and read; what is not as it should be is refused, and says why."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud import kube_manifests
from tasks.cloud.kube_manifests import Wanted, fetch
from tasks.cloud.timing import Timing
from tests.cloud.kubernetes.releases import Releases

QUICK = Timing(5.0, 0.05, 0.01, 0.01)
PATH = "/jobset/releases/download/v0.12.0/manifests.yaml"


@pytest.fixture
def releases() -> Iterator[Releases]:
    with Releases.served() as served:
        yield served


def wanted(releases: Releases, sha256: str | None = None, address: str = "") -> Wanted:
    return Wanted("jobset", "v0.12.0", address or f"{releases.address}{PATH}", sha256)


def test_manifests_with_the_right_hash_are_read_and_kept(releases: Releases, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(releases.files[PATH]).hexdigest()
    found = fetch(wanted(releases, sha256), tmp_path, QUICK)
    assert (found.sha256, found.seen_first) == (sha256, False)
    assert [one["kind"] for one in found.objects][:2] == ["Namespace", "CustomResourceDefinition"]
    assert fetch(wanted(releases, sha256), tmp_path, QUICK).objects == found.objects
    assert releases.asked == [PATH], "what is known by its hash is not fetched again"


def test_what_was_kept_and_is_spoilt_is_fetched_again(releases: Releases, tmp_path: Path) -> None:
    found = fetch(wanted(releases), tmp_path, QUICK)
    (tmp_path / f"{found.sha256}.yaml").write_bytes(b"kind: Other")
    assert fetch(wanted(releases), tmp_path, QUICK).content == found.content
    assert len(releases.asked) == 2


def test_a_wrong_hash_names_both_and_keeps_nothing(releases: Releases, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(releases.files[PATH]).hexdigest()
    with pytest.raises(BadInput, match=f"{sha256}, and not {'0' * 64}: nothing was applied"):
        fetch(wanted(releases, "0" * 64), tmp_path, QUICK)
    assert not list(tmp_path.iterdir())


def test_without_a_hash_it_is_as_when_first_seen(releases: Releases, tmp_path: Path) -> None:
    found = fetch(wanted(releases), tmp_path, QUICK)
    assert found.seen_first
    assert not fetch(wanted(releases), tmp_path, QUICK).seen_first
    (tmp_path / f"{found.sha256}.yaml").unlink()
    other = hashlib.sha256(releases.put("jobset", "v0.12.0", b"other: content")).hexdigest()
    with pytest.raises(BadInput, match=f"SHA-256 {other}; when they were first seen it was {found.sha256}"):
        fetch(wanted(releases), tmp_path, QUICK)


def test_redirects_are_followed_and_a_busy_server_asked_again(releases: Releases, tmp_path: Path) -> None:
    releases.redirects["/elsewhere"] = PATH
    releases.busy = 1
    assert fetch(wanted(releases, address=f"{releases.address}/elsewhere"), tmp_path, QUICK).objects
    assert releases.asked == ["/elsewhere", "/elsewhere", PATH]


def test_what_cannot_be_had_says_why(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(address: str, match: str, error: type[Exception] = InfrastructureError) -> None:
        with pytest.raises(error, match=match):
            fetch(wanted(releases, address=address), tmp_path, QUICK)

    refuses(f"{releases.address}/nothing", "404: is there such a release")
    refuses("http://203.0.113.1/manifests.yaml", "is not https")
    releases.redirects["/away"] = "http://203.0.113.1/manifests.yaml"
    refuses(f"{releases.address}/away", "is not https")
    releases.redirects["/round"] = "/round"
    refuses(f"{releases.address}/round", "more than 5 times")
    refuses("http://127.0.0.1:9/manifests.yaml", "cannot fetch the manifests of jobset v0.12.0")
    refuses(str(tmp_path / "none.yaml"), "No such file", BadInput)
    monkeypatch.setattr(kube_manifests, "LARGEST", 100)
    refuses(f"{releases.address}{PATH}", "it has more than")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"a: [", "is no YAML"),
        (b"# nothing", "holds no objects"),
        (b"just words", "no object of Kubernetes"),
        (b"apiVersion: v1\nkind: Secret\nmetadata: {}", "without apiVersion, kind or name"),
    ],
)
def test_what_are_no_manifests_is_refused_and_not_known(tmp_path: Path, content: bytes, match: str) -> None:
    file = tmp_path / "manifests.yaml"
    file.write_bytes(content)
    known = tmp_path / "known"
    with pytest.raises(BadInput, match=match):
        fetch(Wanted("jobset", "v0.12.0", str(file)), known, QUICK)
    assert not known.exists()


def test_where_they_cannot_be_kept_it_is_said_and_nothing_half_written_is_left(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InfrastructureError, match=r"cannot read what manifests hashed to: Not a directory"):
        fetch(wanted(releases), tmp_path / "file")
    known = tmp_path / "known"
    monkeypatch.setattr(kube_manifests.Path, "replace", full)
    with pytest.raises(
        InfrastructureError, match=r"cannot keep manifests in .*known: No space.*: free some space"
    ):
        fetch(wanted(releases), known)
    assert list(known.iterdir()) == []
