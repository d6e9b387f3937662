"""The client of registries against a stand-in that asks who calls, loses answers and breaks off in the middle."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.cloud import registry_wire
from tasks.cloud.image_names import ImageName, image_name
from tasks.cloud.registry import DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST, Registry
from tasks.cloud.registry_errors import (
    Denied,
    Nameless,
    RegistryError,
    Throttled,
    Unavailable,
    error_for,
    is_google,
)
from tasks.cloud.registry_login import Login, login_for
from tasks.cloud.registry_wire import Wire
from tasks.cloud.timing import Timing, pauses
from tests.cloud.registry import serve_registry
from tests.cloud.registry_store import Fault, Store, digest_of

QUICK = Timing(try_s=30.0, total_s=6.0, first_pause_s=0.5, longest_pause_s=2.0)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    with serve_registry(store) as address:
        yield address


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def registry(slept: list[float]) -> Iterator[Registry]:
    with Registry(Wire(QUICK, login=lambda name: None, pause=slept.append)) as registry:
        yield registry


@pytest.fixture
def named(address: str) -> Callable[[str], ImageName]:
    return lambda rest: image_name(f"{address}/{rest}")


def push_image(
    store: Store,
    repository: str,
    tag: str,
    layers: tuple[bytes, ...] = (b"layer",),
    media_type: str = OCI_MANIFEST,
    config: dict[str, Any] | None = None,
) -> str:
    """Puts an image into a store; returns its digest."""
    kept = store.repository(repository)
    about = {
        "created": "2026-01-01T00:00:00Z",
        "config": {"Env": ["PYTHON_VERSION=3.12.1"]},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(b"plain" + layer) for layer in layers]},
        "history": [{"created_by": "base"} for _ in layers],
        **(config or {}),
    }
    raw = json.dumps(about).encode()
    for blob in (raw, *layers):
        kept.blobs[digest_of(blob)] = blob
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": {"mediaType": "config", "digest": digest_of(raw), "size": len(raw)},
            "layers": [{"mediaType": "layer", "digest": digest_of(one), "size": len(one)} for one in layers],
        }
    ).encode()
    digest = digest_of(manifest)
    kept.manifests[digest] = (media_type, manifest)
    kept.tags[tag] = digest
    return digest


def push_index(store: Store, repository: str, tag: str, media_type: str, platforms: dict[str, str]) -> str:
    entries = [
        {"digest": digest, "platform": dict(zip(("os", "architecture"), platform.split("/"), strict=True))}
        for platform, digest in platforms.items()
    ]
    raw = json.dumps({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}).encode()
    kept = store.repository(repository)
    kept.manifests[digest_of(raw)] = (media_type, raw)
    kept.tags[tag] = digest_of(raw)
    return digest_of(raw)


def test_a_tag_is_resolved_to_its_digest(store: Store, registry: Registry, named) -> None:
    digest = push_image(store, "a/b", "v1")
    assert registry.resolve(named("a/b:v1")).digest == digest
    assert registry.resolve(named(f"a/b@{digest}")).digest == digest
    assert registry.find(named("a/b:v2")) is None and registry.find(named("none:v1")) is None
    assert registry.manifest(named("a/b:v1")).digest == digest


def test_an_image_that_does_not_exist_is_refused_with_the_nearest(
    store: Store, registry: Registry, named
) -> None:
    push_image(store, "a/b", "nightly")
    with pytest.raises(BadInput, match=r"there is no image .*/a/b:nigthly, did you mean nightly"):
        registry.resolve(named("a/b:nigthly"))
    with pytest.raises(BadInput, match="there are: nightly"):
        registry.image(named("a/b:zzz"))
    with pytest.raises(BadInput, match="is the repository right"):
        registry.resolve(named("nobody:v1"))


@pytest.mark.parametrize(("index", "single"), [(OCI_INDEX, OCI_MANIFEST), (DOCKER_LIST, DOCKER_MANIFEST)])
def test_of_an_index_linux_amd64_is_taken(
    store: Store, registry: Registry, named, index: str, single: str
) -> None:
    arm = push_image(store, "a", "arm", (b"arm",), single)
    amd = push_image(store, "a", "amd", (b"amd",), single)
    whole = push_index(
        store, "a", "all", index, {"unknown/unknown": arm, "linux/arm64": arm, "linux/amd64": amd}
    )
    assert registry.image(named("a:all")).digest == amd
    assert registry.resolve(named("a:all")).digest == whole  # nodes take what is for them
    push_index(store, "a", "arm-only", index, {"linux/arm64": arm, "unknown/unknown": arm})
    with pytest.raises(BadInput, match="is not for linux/amd64, it is for linux/arm64"):
        registry.image(named("a:arm-only"))


def test_what_differs_from_its_digest_is_not_believed(
    store: Store, registry: Registry, named, tmp_path: Path
) -> None:
    digest = push_image(store, "a", "v1", (b"layer",))
    kept = store.repository("a")
    kept.manifests[digest] = (OCI_MANIFEST, b"{}")
    with pytest.raises(RegistryError, match="something else"):
        registry.manifest(named(f"a@{digest}"))
    kept.blobs[digest_of(b"layer")] = b"poison"
    with pytest.raises(RegistryError, match="something else"):
        registry.download(named("a"), digest_of(b"layer"), tmp_path / "blob")


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    (tmp_path / "blob").write_bytes(os.urandom(3 << 20))
    return tmp_path / "blob"


def upload(registry: Registry, name: ImageName, file: Path) -> str:
    digest = digest_of(file.read_bytes())
    registry.upload(name, file, digest)
    return digest


def test_a_blob_goes_up_and_comes_down(
    store: Store, registry: Registry, named, blob: Path, tmp_path: Path
) -> None:
    digest = upload(registry, named("a"), blob)
    assert store.repository("a").blobs[digest] == blob.read_bytes()
    assert registry.has_blob(named("a"), digest) and not registry.has_blob(named("b"), digest)
    registry.download(named("a"), digest, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == blob.read_bytes()


def test_a_broken_upload_goes_on_where_it_was(store: Store, registry: Registry, named, blob: Path) -> None:
    store.faults = [Fault("PATCH", "cut", after=1 << 20), Fault("PATCH", "cut", nth=2, after=1 << 20)]
    digest = upload(registry, named("a"), blob)
    assert store.repository("a").blobs[digest] == blob.read_bytes()
    assert sum(one.startswith("POST") for one in store.asked) == 1  # never from the beginning
    assert sum(one.startswith("PATCH") for one in store.asked) == 3


def test_a_broken_download_goes_on_where_it_was(
    store: Store, registry: Registry, named, blob: Path, tmp_path: Path
) -> None:
    digest = upload(registry, named("a"), blob)
    store.faults = [Fault(f"GET .*{digest}", "short", after=1 << 20)]
    registry.download(named("a"), digest, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == blob.read_bytes()
    assert store.ranges == [f"bytes={1 << 20}-"]


@pytest.mark.parametrize("fits", ["POST", "PATCH", "PUT"])
def test_a_lost_answer_is_looked_after(
    store: Store, registry: Registry, named, blob: Path, fits: str
) -> None:
    store.faults = [Fault(fits, "lost")]
    digest = upload(registry, named("a"), blob)
    assert store.repository("a").blobs[digest] == blob.read_bytes()
    assert sum(one.startswith("PATCH") for one in store.asked) == 1, "what has arrived is not sent again"


def test_an_upload_that_the_registry_forgot_begins_anew(
    store: Store, registry: Registry, named, blob: Path
) -> None:
    store.faults = [Fault("PATCH", "503"), Fault("GET .*uploads", "404")]
    digest = upload(registry, named("a"), blob)
    assert store.repository("a").blobs[digest] == blob.read_bytes()
    assert sum(one.startswith("POST") for one in store.asked) == 2


def test_a_manifest_whose_answer_was_lost_is_written_again(store: Store, registry: Registry, named) -> None:
    digest = push_image(store, "a", "v1")
    media_type, raw = store.repository("a").manifests[digest]
    store.faults = [Fault("PUT", "lost")]
    assert registry.put(named("a:v2"), media_type, raw).digest == digest
    assert store.repository("a").tags["v2"] == digest


def test_a_registry_that_takes_no_more_is_waited_for_as_long_as_it_says(
    store: Store, registry: Registry, named, slept: list[float]
) -> None:
    push_image(store, "a", "v1")
    store.faults = [
        Fault("HEAD", "429", retry_after="7"),
        Fault("HEAD", "429", nth=2),
        Fault("HEAD", "503", nth=3),
    ]
    registry.resolve(named("a:v1"))
    assert slept[0] == 7.0 and len(slept) == 3 and max(slept[1:]) <= 2.0


def test_what_stays_down_is_told_after_a_while(
    store: Store, registry: Registry, named, slept: list[float]
) -> None:
    store.faults = [Fault("HEAD", "503", nth=n) for n in range(1, 9)]
    with pytest.raises(Unavailable, match=r"cannot HEAD http://127.0.0.1:\d+/v2/a/manifests/v1"):
        registry.find(named("a:v1"))
    assert len(slept) == len(list(pauses(QUICK))) - 1


def test_nobody_there_is_told_with_what_to_look_at(registry: Registry) -> None:
    with pytest.raises(Unavailable, match="is 127.0.0.1:1 the right registry"):
        registry.find(image_name("127.0.0.1:1/a:v1"))


# ---------------------------------------------------------------------- who calls


def client(login: Login | None) -> Registry:
    return Registry(Wire(QUICK, login=lambda name: login, pause=lambda s: None))


def test_what_is_public_is_read_by_anybody_with_a_token(store: Store, named) -> None:
    store.login = "me:secret"
    digest = push_image(store, "a", "v1")
    with client(None) as registry:
        assert registry.resolve(named("a:v1")).digest == digest
        registry.manifest(named("a:v1"))
    assert store.tokens == ["repository:a:pull"]  # one for both


def test_pushing_needs_a_login(store: Store, named, blob: Path) -> None:
    store.login = "me:secret"
    with client(None) as registry, pytest.raises(Denied, match="docker login 127.0.0.1"):
        upload(registry, named("a"), blob)
    with client(Login("me", "wrong")) as registry, pytest.raises(Denied):
        upload(registry, named("a"), blob)
    with client(Login("me", "secret")) as registry:
        digest = upload(registry, named("a"), blob)
    assert digest in store.repository("a").blobs


@pytest.mark.parametrize(
    ("image", "realm"),
    [
        ("ghcr.io/a/b", "http://ghcr.io/token"),
        ("127.0.0.1:1/a", "ftp://127.0.0.1/token"),
        ("gcr.io/a/b", "https://evil.example/token"),
        ("gcr.io/a/b", ""),
    ],
)
def test_a_password_is_not_sent_where_it_could_leak(image: str, realm: str) -> None:
    wire = Wire(QUICK, login=lambda name: Login("me", "secret"), pause=lambda s: None)
    with pytest.raises(Denied, match="where no password is sent"):
        wire._answer_to(f'Bearer realm="{realm}",service="x"', image_name(image), "pull")


@pytest.mark.parametrize(
    ("host", "google"),
    [
        ("gcr.io", True), ("eu.gcr.io", True), ("europe-west4-docker.pkg.dev", True), ("gcr.io.evil.com", False),
        ("evilgcr.io", False), ("docker.pkg.dev", False), ("ghcr.io", False),
    ],
)  # fmt: skip
def test_googles_token_is_for_googles_registries(host: str, google: bool) -> None:
    assert is_google(host) is google


def test_logins_that_docker_wrote_down_are_used(tmp_path: Path) -> None:
    def write(file: Path, **auths: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        entries = {key: {"auth": base64.b64encode(text.encode()).decode()} for key, text in auths.items()}
        file.write_text(json.dumps({"auths": entries}))

    environ = {"HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path / "docker")}
    assert login_for(image_name("ghcr.io/a/b"), environ) is None
    write(
        tmp_path / "docker" / "config.json", **{"ghcr.io": "me:a:b", "https://index.docker.io/v1/": "hub:pw"}
    )
    assert login_for(image_name("ghcr.io/a/b"), environ) == Login("me", "a:b")
    assert login_for(image_name("python"), environ) == Login("hub", "pw")
    write(tmp_path / "auth.json", **{"ghcr.io": "other:c"})
    assert login_for(
        image_name("ghcr.io/a/b"), {**environ, "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}
    ) == Login("other", "c")
    (tmp_path / "docker" / "config.json").write_text("{")
    assert login_for(image_name("ghcr.io/a/b"), environ) is None
    assert "a:b" not in repr(Login("me", "a:b"))


def test_errors_say_what_to_do() -> None:
    name = image_name("europe-docker.pkg.dev/p/r/i")
    assert "artifactregistry.writer" in str(error_for(403, b"", name, "push"))
    assert isinstance(error_for(400, b'{"errors":[{"code":"TOOMANYREQUESTS"}]}', name, "push"), Throttled)
    assert "HTTP 418" in str(error_for(418, b"<html>", name, "push"))


def test_a_host_whose_name_nobody_knows_is_not_asked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def unknown(*where: object, **_: object) -> object:
        asked.append(where)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(registry_wire, "_NAMELESS_S", 0.0)
    with (
        Registry(Wire(pause=lambda _: None)) as registry,
        pytest.raises(Nameless, match="not known; is nowhere"),
    ):
        registry.resolve(image_name("nowhere.invalid/a/b:v1"))
    # Threads that other tests left in this process ask for hosts of their own.
    assert [where[0] for where in asked].count("nowhere.invalid") == 1
