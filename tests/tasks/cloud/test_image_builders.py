"""docker, buildah and podman are told what they understand; what they say is taken for what it is."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.cloud import image_builders
from tasks.cloud.image_builders import Builder, Job, choose_builder, engine, push_image, run_in
from tasks.cloud.image_names import image_name

DIGEST = "sha256:" + "ab" * 32
BASE = image_name(f"docker.io/library/python:3.12@{DIGEST}")
FAR, HERE = image_name("gcr.io/p/i:t"), image_name("127.0.0.1:5000/i:t")


def job(tmp_path: Path, **more: object) -> Job:
    return Job(tmp_path, BASE, FAR, {"a": "b c"}, **more)  # type: ignore[arg-type]


def put(folder: Path, name: str, script: str) -> None:
    """Puts a program into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that comes first; of docker, buildah and podman there are none but those put into it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "env", "echo"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tools}")
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.mark.parametrize("name", image_builders.NAMES)
def test_the_base_is_built_on_by_digest(name: image_builders.Name, tmp_path: Path) -> None:
    argv = Builder(name).build(job(tmp_path))
    assert argv[:2] == [name, "build"] and argv[-1] == str(tmp_path)
    told = dict(itertools.pairwise(argv))
    assert told["--build-arg"] == f"BASE_IMAGE=docker.io/library/python@{DIGEST}"
    assert (
        told["--tag"] == "gcr.io/p/i:t" and told["--label"] == "a=b c" and told["--platform"] == "linux/amd64"
    )
    assert not {"--no-cache", "--secret", "--tls-verify=false"} & set(argv)


@pytest.mark.parametrize("name", image_builders.NAMES)
def test_a_fresh_build_uses_no_cache_and_a_password_is_no_argument(
    name: image_builders.Name, tmp_path: Path
) -> None:
    argv = Builder(name).build(job(tmp_path, no_cache=True, pip=tmp_path / "pip.conf"))
    assert "--no-cache" in argv and "--layers" not in argv
    assert argv[argv.index("--secret") + 1] == f"id=pip,src={tmp_path}/pip.conf"


def test_only_to_this_machine_buildah_and_podman_speak_without_tls(tmp_path: Path) -> None:
    for name, told in (("docker", False), ("buildah", True), ("podman", True)):
        builder = Builder(name)  # type: ignore[arg-type]
        assert ("--tls-verify=false" in builder.build(Job(tmp_path, BASE, HERE))) is told
        assert ("--tls-verify=false" in builder.push(HERE, tmp_path / "d")) is told
        assert "--tls-verify=false" not in builder.push(FAR, tmp_path / "d")


def test_each_pushes_and_says_the_digest_in_its_own_way(tmp_path: Path) -> None:
    digest = str(tmp_path / "d")
    assert Builder("docker").push(FAR, tmp_path / "d") == ["docker", "push", "--quiet", "gcr.io/p/i:t"]
    for name in ("buildah", "podman"):
        argv = Builder(name).push(FAR, tmp_path / "d")  # type: ignore[arg-type]
        assert argv == [name, "push", "--digestfile", digest, "gcr.io/p/i:t", "docker://gcr.io/p/i:t"]


def test_logins_are_a_file_not_an_argument(tmp_path: Path) -> None:
    assert Builder("docker", tmp_path).push(FAR, tmp_path)[:3] == ["docker", "--config", str(tmp_path)]
    assert Builder("podman", tmp_path).push(FAR, tmp_path)[1:4] == [
        "push",
        "--authfile",
        f"{tmp_path}/config.json",
    ]


def test_a_container_that_is_tried_out_writes_to_a_folder_and_goes(tmp_path: Path) -> None:
    command = ["python", "-m", "runtime.smoke"]
    start, run, remove = Builder("buildah").run(HERE, command, tmp_path, "x")
    assert start == ["buildah", "from", "--tls-verify=false", "--name", "x", "127.0.0.1:5000/i:t"]
    assert run == ["buildah", "run", "--volume", f"{tmp_path}:/smoke", "x", "--", *command]
    assert remove == ["buildah", "rm", "x"]
    run, remove = Builder("docker").run(FAR, command, tmp_path, "x")
    assert run[-5:] == ["--entrypoint", "python", "gcr.io/p/i:t", "-m", "runtime.smoke"]
    assert remove == ["docker", "rm", "--force", "x"]


def test_the_first_that_works_is_taken(programs: Path) -> None:
    with pytest.raises(InfrastructureError, match="docker is not installed.*--script-dir, which needs none"):
        choose_builder(None)
    put(programs, "podman", "exit 0")
    assert choose_builder(None) == "podman"
    put(programs, "docker", "echo Cannot connect to the Docker daemon >&2; exit 1")
    assert choose_builder(None) == "podman"  # of docker there is the client alone
    with pytest.raises(
        InfrastructureError, match="docker does not work: Cannot connect to the Docker daemon"
    ):
        choose_builder("docker")
    put(programs, "docker", "echo 28.2")
    assert choose_builder(None) == "docker" and choose_builder("podman") == "podman"


def test_an_engine_sees_where_its_storage_is_and_no_secrets(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_DRIVER", "vfs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    put(programs, "buildah", "env")
    told = engine(["buildah", "build"]).text
    assert "STORAGE_DRIVER=vfs" in told and "AWS_SECRET" not in told


def test_the_digest_is_the_one_that_was_pushed(programs: Path, tmp_path: Path) -> None:
    put(programs, "buildah", f'while [ "$1" != --digestfile ]; do shift; done; echo {DIGEST} > "$2"')
    assert push_image(Builder("buildah"), FAR, tmp_path) == DIGEST
    other = "sha256:" + "cd" * 32
    put(programs, "docker", f'[ "$1" = push ] || echo \'["gcr.io/p/other@{other}", "gcr.io/p/i@{DIGEST}"]\'')
    assert push_image(Builder("docker"), FAR, tmp_path) == DIGEST
    put(programs, "docker", f'[ "$1" = push ] || echo \'["me/i@{DIGEST}"]\'')
    assert push_image(Builder("docker"), image_name("me/i:t"), tmp_path) == DIGEST
    put(programs, "docker", '[ "$1" = push ] || echo "[]"')
    with pytest.raises(InfrastructureError, match="does not say what gcr.io/p/i:t is in the registry"):
        push_image(Builder("docker"), FAR, tmp_path)


def test_what_an_engine_said_last_is_told(programs: Path, tmp_path: Path) -> None:
    put(programs, "buildah", "echo STEP 3; echo no space left on device >&2; exit 125")
    with pytest.raises(
        InfrastructureError, match=r"buildah push .* \(exit code 125\): STEP 3 / no space left"
    ):
        push_image(Builder("buildah"), FAR, tmp_path)


def test_a_container_goes_although_the_command_failed(programs: Path, tmp_path: Path) -> None:
    put(programs, "buildah", f'echo "$1" >> {tmp_path}/said; [ "$1" != run ] || exit 7')
    assert run_in(Builder("buildah"), HERE, ["true"], tmp_path, "x").code == 7
    assert (tmp_path / "said").read_text().split() == ["from", "run", "rm"]
