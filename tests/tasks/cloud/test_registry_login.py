"""Engines that lack a login are lent Google's token, in a file that is ours alone and goes; what they have stays."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from tasks.cloud import registry_login
from tasks.cloud.image_names import image_name
from tasks.cloud.registry_login import Login, engine_logins, login_for

GOOGLE = image_name("europe-docker.pkg.dev/p/r/i")
OTHER = image_name("ghcr.io/a/b")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registry_login, "_google", lambda: Login("oauth2accesstoken", "token"))


def write(file: Path, content: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def basic(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def test_googles_token_goes_to_google_and_to_nobody_else() -> None:
    assert login_for(GOOGLE) == Login("oauth2accesstoken", "token")
    assert login_for(OTHER) is None and login_for(image_name("python")) is None


@pytest.mark.parametrize("builder", ["docker", "buildah", "podman"])
def test_an_engine_is_lent_a_login_in_a_file_of_ours(builder: str) -> None:
    with engine_logins([OTHER, GOOGLE], builder) as folder:
        assert folder is not None
        file = folder / "config.json"
        assert json.loads(file.read_text())["auths"] == {GOOGLE.host: basic("oauth2accesstoken:token")}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not folder.exists()


def test_what_an_engine_knows_by_itself_it_keeps(tmp_path: Path) -> None:
    docker = tmp_path / ".docker"
    write(docker / "config.json", {"auths": {"ghcr.io": basic("me:pw")}, "currentContext": "far"})
    write(docker / "contexts" / "meta", {})
    with engine_logins([GOOGLE], "docker") as folder:
        assert folder is not None
        content = json.loads((folder / "config.json").read_text())
        assert content["currentContext"] == "far" and set(content["auths"]) == {"ghcr.io", GOOGLE.host}
        assert (folder / "contexts" / "meta").is_file()
    assert (docker / "contexts" / "meta").is_file()
    write(tmp_path / ".config" / "containers" / "auth.json", {"auths": {"quay.io": basic("x:y")}})
    with engine_logins([GOOGLE], "podman") as folder:
        assert folder is not None
        assert set(json.loads((folder / "config.json").read_text())["auths"]) == {"quay.io", GOOGLE.host}


@pytest.mark.parametrize(
    "known", [{"credHelpers": {GOOGLE.host: "gcloud"}}, {"auths": {GOOGLE.host: basic("a:b")}}]
)
def test_who_has_a_login_is_lent_none(known: object, tmp_path: Path) -> None:
    write(tmp_path / ".docker" / "config.json", known)
    with engine_logins([GOOGLE], "docker") as folder:
        assert folder is None


def test_nothing_is_lent_for_other_registries_or_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_logins([OTHER], "docker") as folder:
        assert folder is None
    monkeypatch.setattr(registry_login, "_google", lambda: None)
    with engine_logins([GOOGLE], "docker") as folder:
        assert folder is None
