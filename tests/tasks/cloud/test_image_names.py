"""Names of images are read as Docker reads them, and tags that we make are legal whatever they are made of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.errors import BadInput
from tasks.cloud.image_names import checked_tag, image_name, made_tag, repository_name

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("python", "docker.io/library/python"),
        ("python:3.12-slim", "docker.io/library/python:3.12-slim"),
        ("someone/thing:a", "docker.io/someone/thing:a"),
        ("index.docker.io/someone/thing", "docker.io/someone/thing"),
        ("localhost/thing", "localhost/thing"),
        ("127.0.0.1:5000/a/b:c", "127.0.0.1:5000/a/b:c"),
        ("europe-docker.pkg.dev/p/r/i:t", "europe-docker.pkg.dev/p/r/i:t"),
        (f"gcr.io/p/i@{DIGEST}", f"gcr.io/p/i@{DIGEST}"),
        (f"gcr.io/p/i:tag@{DIGEST}", f"gcr.io/p/i:tag@{DIGEST}"),
        ("[::1]:5000/a", "[::1]:5000/a"),
    ],
)
def test_names_are_read_as_docker_reads_them(text: str, whole: str) -> None:
    assert str(image_name(text)) == whole


def test_no_tag_is_latest_and_a_digest_counts_before_a_tag() -> None:
    assert image_name("python").reference == "latest"
    assert image_name(f"a.b/c:d@{DIGEST}").reference == DIGEST
    assert image_name("python").endpoint == "registry-1.docker.io"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a repository"),
        ("gcr.io/Project/image", "write it in small letters: gcr.io/project/image"),
        ("gcr.io/p/i:", "'' is not a tag"),
        ("gcr.io/p/i:feat/x", "is not a repository"),
        (f"gcr.io/p/i:{'x' * 129}", "is not a tag"),
        ("gcr.io/p/i@sha256:12", "is not a digest"),
        ("gcr.io/p/i@", "is not a digest"),
        ("https://gcr.io/p/i", "is not a"),
        ("--privileged", "is not a repository"),
        ("gcr.io/p/-x", "is not a repository"),
        ("a.b/" + "x/" * 130 + "y", "at most 255"),
    ],
)
def test_what_is_no_name_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        image_name(text)


@pytest.mark.parametrize("text", ["gcr.io/p/i:tag", f"gcr.io/p/i@{DIGEST}"])
def test_a_repository_has_no_tag(text: str) -> None:
    with pytest.raises(BadInput, match="write gcr.io/p/i, and the tag with --tag"):
        repository_name(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("localhost:5001", "is a registry, and names no repository in it, write localhost:5001/NAME"),
        ("localhost", "is a registry, .* write localhost/NAME"),
        ("registry:5000", "is a registry, .* write registry:5000/NAME, such as registry:5000/slicebench"),
        ("gcr.io", "is a registry, .* write gcr.io/NAME"),
        ("127.0.0.1:5001", "is a registry, .* write 127.0.0.1:5001/NAME"),
        ("mine", "names no registry, .*REPOSITORY/mine, or on Docker Hub USER/mine"),
        ("mine:v1", "names no registry, .*REPOSITORY/mine, or on Docker Hub USER/mine"),
        (f"mine@{DIGEST}", "names no registry, .*REPOSITORY/mine, or on Docker Hub USER/mine"),
        ("gcr.io/", "is not a repository"),
        ("", "is not a repository"),
    ],
)
def test_a_repository_is_named_with_its_registry(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        repository_name(text)


def test_what_is_said_of_a_repository_names_where_it_stands() -> None:
    for text in ("localhost:5001", "mine", "gcr.io/p/i:tag"):
        with pytest.raises(BadInput, match=f"build.repository '{text}'"):
            repository_name(text, "build.repository", "no tag")


def test_a_repository_is_read() -> None:
    assert str(repository_name("localhost:5001/mine")) == "localhost:5001/mine"
    assert str(repository_name("me/mine")) == "docker.io/me/mine"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost:5000", True),
        ("127.1.2.3:80", True),
        ("[::1]:5000", True),
        ("127.0.0.1.evil.com", False),
        ("gcr.io", False),
    ],
)
def test_only_this_machine_is_spoken_to_in_the_clear(host: str, here: bool) -> None:
    assert image_name(f"{host}/a").loopback is here


def test_a_tag_tells_what_is_in_the_image() -> None:
    assert made_tag("main", "tpu", "0.10.2", "ab" * 32) == "main-tpu-0.10.2-abababababab"


@given(
    st.text(min_size=1, max_size=300),
    st.sampled_from(["tpu", "gpu", "cpu", ""]),
    st.from_regex(r"\A[0-9a-f]{64}\Z"),
)
def test_a_made_tag_is_legal_whatever_the_branch(ref: str, device: str, key: str) -> None:
    tag = made_tag(ref, device, "0.10.2.dev20261101", key)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", tag)
    assert tag.endswith(key[:12])


def test_branches_whose_legal_forms_are_equal_have_tags_of_their_own() -> None:
    tags = {
        made_tag(ref, "cpu", "1", "0" * 64) for ref in ("feat/x", "feat-x", "feat x", "a" * 200, "a" * 201)
    }
    assert len(tags) == 5


def test_a_chosen_tag_is_refused_with_one_that_would_do() -> None:
    with pytest.raises(BadInput, match=r"is not a tag, for example 'feat-x'"):
        checked_tag("feat/x")
    with pytest.raises(BadInput, match="129 characters"):
        checked_tag("x" * 129)
    assert checked_tag("v1") == "v1"
