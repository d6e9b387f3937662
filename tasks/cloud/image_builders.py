"""docker, buildah and podman by their commands: which there are, and what each is told to build, try out and push."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from runtime.contract.errors import InfrastructureError
from tasks.cloud.command import Finished, clean_environment, run_command
from tasks.cloud.image_names import ImageName

Name = Literal["docker", "buildah", "podman"]
NAMES: tuple[Name, ...] = get_args(Name)

OUTPUT = "/smoke"
"""Where a container that is tried out sees the folder that it writes to."""

_PASSED = (
    "BUILDAH_ISOLATION", "BUILDAH_LAYERS", "BUILDAH_RUNTIME", "STORAGE_DRIVER", "STORAGE_OPTS", "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINER_HOST", "REGISTRY_AUTH_FILE",
    "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY", "BUILDX_BUILDER",
)  # fmt: skip
_LOOK_S, _BUILD_S, _PUSH_S, _TRY_S = 20.0, 5400.0, 3600.0, 900.0


@dataclass(frozen=True)
class Job:
    """What is to be built. `pip` is a file of index settings that may hold a password, `base` an image by digest."""

    context: Path
    base: ImageName
    target: ImageName
    labels: Mapping[str, str] = field(default_factory=dict)
    no_cache: bool = False
    pip: Path | None = None

    @property
    def in_the_clear(self) -> bool:
        """Whether one of the registries is on this machine, where buildah and podman insist on TLS unless told."""
        return self.base.loopback or self.target.loopback


@dataclass(frozen=True)
class Builder:
    """An engine by its command. `logins` is a file or folder of logins that it is to use instead of its own."""

    name: Name
    logins: Path | None = None

    def build(self, job: Job) -> list[str]:
        """Returns the command that builds."""
        labels = [word for key, value in job.labels.items() for word in ("--label", f"{key}={value}")]
        return [
            *self._start("build"),
            "--file", str(job.context / "Dockerfile"),
            "--tag", str(job.target),
            "--platform", "linux/amd64",
            "--build-arg", f"BASE_IMAGE={job.base.pinned()}",
            *labels,
            *(["--secret", f"id=pip,src={job.pip}"] if job.pip else []),
            *(["--no-cache"] if job.no_cache else self._cached()),
            *self._unverified(job.in_the_clear),
            str(job.context),
        ]  # fmt: skip

    def push(self, target: ImageName, digest: Path) -> list[str]:
        """Returns the command that pushes; buildah and podman write the digest to a file."""
        if self.name == "docker":
            return [*self._start("push"), "--quiet", str(target)]
        words = [*self._start("push"), "--digestfile", str(digest), *self._unverified(target.loopback)]
        return [*words, str(target), f"docker://{target}"]

    def pushed(self, target: ImageName) -> list[str] | None:
        """Returns the command that tells the digest of what was pushed, where no file does."""
        if self.name != "docker":
            return None
        return [*self._start("image"), "inspect", "--format", "{{json .RepoDigests}}", str(target)]

    def run(self, image: ImageName, command: Sequence[str], output: Path, name: str) -> list[list[str]]:
        """Returns the commands that run one in a container of that name, `output` mounted; the last cleans up."""
        mount = ["--volume", f"{output}:{OUTPUT}"]
        if self.name == "buildah":
            unverified = self._unverified(image.loopback)
            return [
                [*self._start("from"), *unverified, "--name", name, str(image)],
                ["buildah", "run", *mount, name, "--", *command],
                ["buildah", "rm", name],
            ]
        unverified = self._unverified(image.loopback)
        run = [*self._start("run"), *unverified, "--name", name, *mount, "--entrypoint", command[0]]
        return [[*run, str(image), *command[1:]], [self.name, "rm", "--force", name]]

    def _start(self, word: str) -> list[str]:
        if self.logins is None:
            return [self.name, word]
        if self.name == "docker":
            return [self.name, "--config", str(self.logins), word]
        return [self.name, word, "--authfile", str(self.logins / "config.json")]

    def _cached(self) -> list[str]:
        """Returns what makes buildah keep what steps make, as the others do, unless its own variable decides that."""
        return ["--layers"] if self.name == "buildah" and "BUILDAH_LAYERS" not in os.environ else []

    def _unverified(self, wanted: bool) -> list[str]:
        return ["--tls-verify=false"] if wanted and self.name != "docker" else []


def choose_builder(told: Name | None) -> Name:
    """Returns the engine to use: the one that was named, else the first that works here.

    Raises InfrastructureError where there is none.
    """
    missing = []
    for name in (told,) if told else NAMES:
        if shutil.which(name) is None:
            missing.append(f"{name} is not installed")
        elif (why := _why_not(name)) is not None:
            missing.append(f"{name} does not work: {why}")
        else:
            return name
    fix = "apt-get install buildah, or append your files to a base image with --script-dir, which needs none"
    raise InfrastructureError(f"no image can be built here: {'; '.join(missing)}; {fix}")


def engine(argv: Sequence[str], *, timeout_s: float = _BUILD_S) -> Finished:
    """Runs a command of an engine, in a clean environment that leads it to its daemon, storage and logins."""
    env = clean_environment() | {name: os.environ[name] for name in _PASSED if name in os.environ}
    return run_command(argv, env=env | {"DOCKER_BUILDKIT": "1"}, timeout_s=timeout_s)


def build_image(builder: Builder, job: Job) -> None:
    """Builds. Raises InfrastructureError, with the last that the engine said, where that fails."""
    _checked(engine(builder.build(job)), f"{builder.name} build")


def push_image(builder: Builder, target: ImageName, work: Path) -> str:
    """Pushes, and returns the digest. Raises InfrastructureError."""
    told = work / "digest"
    _checked(engine(builder.push(target, told), timeout_s=_PUSH_S), f"{builder.name} push {target}")
    if (asking := builder.pushed(target)) is None:
        return told.read_text().strip()
    listed = _checked(engine(asking, timeout_s=_LOOK_S), "docker image inspect")
    for one in json.loads(listed.text):
        if _is_of(one, target):
            return str(one.partition("@")[2])
    raise InfrastructureError(f"docker does not say what {target} is in the registry: {listed.text.strip()}")


def run_in(builder: Builder, image: ImageName, command: Sequence[str], output: Path, name: str) -> Finished:
    """Runs a command in a container of an image, and removes the container whatever happens."""
    *before, run, remove = builder.run(image, command, output, name)
    try:
        for argv in before:
            _checked(engine(argv, timeout_s=_TRY_S), " ".join(argv[:2]))
        return engine(run, timeout_s=_TRY_S)
    finally:
        engine(remove, timeout_s=_LOOK_S)


def _is_of(listed: str, target: ImageName) -> bool:
    """Whether docker's `repository@digest` is of this repository: of its own hub docker leaves the host away."""
    short = target.repository.removeprefix("docker.io/").removeprefix("library/")
    return listed.partition("@")[0] in (target.repository, short)


def _why_not(name: Name) -> str | None:
    """Returns why an engine that is installed does not work: of docker only the client may be there."""
    if name != "docker":
        return None
    asked = engine(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=_LOOK_S)
    return None if asked.code == 0 else (_last_lines(asked, 1) or "its daemon does not answer")


def _checked(done: Finished, what: str) -> Finished:
    if done.code != 0:
        raise InfrastructureError(f"{what} failed (exit code {done.code}): {_last_lines(done, 15)}")
    return done


def _last_lines(done: Finished, count: int) -> str:
    def lines() -> Iterator[str]:
        for text in (done.text, done.errors):
            yield from (line.strip() for line in text.splitlines() if line.strip())

    return " / ".join(list(lines())[-count:])[-3000:]
