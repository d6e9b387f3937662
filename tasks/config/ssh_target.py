"""Model of a target file for hosts reached over SSH."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput
from tasks.config import patterns, size
from tasks.config.sidecar import BESIDE, WithSidecar

_FORBID = ConfigDict(extra="forbid", frozen=True)


class JumpConfig(BaseModel):
    """The host through which others are reached; its host key is verified as theirs are."""

    model_config = _FORBID

    address: str = Field(pattern=patterns.HOST, description="Name or IP address")
    port: int = Field(22, gt=0, lt=65536)
    user: str | None = Field(
        None, pattern=patterns.USER, description="User there; the hosts' own when not given"
    )
    key: str | None = Field(
        None, pattern=patterns.ONE_LINE, description="Private key file; the hosts' own when not given"
    )
    host_key: str | None = Field(
        None, pattern=patterns.HOST_KEY, description="Its public key, as in known_hosts: type and base64"
    )


class HostConfig(BaseModel):
    """One host, which is one worker. What is not given here holds as for all hosts."""

    model_config = _FORBID

    address: str = Field(pattern=patterns.HOST, description="Name or IP address")
    port: int | None = Field(None, gt=0, lt=65536)
    user: str | None = Field(None, pattern=patterns.USER)
    key: str | None = Field(None, pattern=patterns.ONE_LINE, description="Private key file")
    host_key: str | None = Field(
        None, pattern=patterns.HOST_KEY, description="Its public key, as in known_hosts: type and base64"
    )
    group: str | None = Field(None, pattern=patterns.ONE_LINE, description="Hosts of one group are one slice")
    internal_address: str | None = Field(
        None, pattern=patterns.HOST, description="What the other workers reach it by, if not address"
    )
    jump: JumpConfig | None = None
    proxy_command: tuple[str, ...] = Field(
        (), description="Words of a command whose input and output are the connection to this host's sshd"
    )


def _host(value: Any) -> Any:
    return {"address": value} if isinstance(value, str) else value


class SshTargetConfig(WithSidecar):
    """Hosts that are there, reached over SSH: one worker on each, in the order of the file."""

    model_config = _FORBID

    kind: Literal["ssh"]
    hosts: tuple[Annotated[HostConfig, BeforeValidator(_host)], ...] = Field(
        description="Hosts: an address, or a mapping with more"
    )
    user: str = Field(pattern=patterns.USER, description="Whom to log in as")
    port: int = Field(22, gt=0, lt=65536, description="Port of sshd")
    key: str | None = Field(None, pattern=patterns.ONE_LINE, description="Private key file that is offered")
    known_hosts: str = Field(
        "~/.ssh/known_hosts",
        pattern=patterns.ONE_LINE,
        description="Where host keys are known that are not pinned",
    )
    agent: bool = Field(False, description="Offer the keys of the SSH agent as well")
    default_keys: bool = Field(False, description="Offer ~/.ssh/id_* as well")
    jump: JumpConfig | None = Field(None, description="Host through which all hosts are reached")
    python: str | None = Field(
        None,
        description="Interpreter on the hosts that has jax and orbax-checkpoint; not given: a venv is made there",
    )
    folder: str = Field("~/.slicebench", description="Where slicebench keeps its things on the hosts")
    output: str | None = Field(
        None,
        description="Folder on the hosts for what workers write; shared by all hosts when there are several",
    )
    ram_directory: str | None = Field(
        None,
        pattern=size.PATTERN,
        description="Size of a directory in the memory of each host, as 64GiB: the workers' local directory",
    )
    platform: Literal["cpu", "gpu", "tpu"] = Field("cpu", description="What the workers compute on")
    devices_per_worker: Annotated[int, Field(gt=0, le=4096)] | Literal["auto"] = Field(
        "auto", description="Devices of each worker; auto: as many as the suite's meshes need"
    )

    nested: ClassVar[Mapping[str, type[BaseModel]]] = {"hosts": HostConfig, "jump": JumpConfig, **BESIDE}

    @field_validator("hosts")
    @classmethod
    def _each_once(cls, hosts: tuple[HostConfig, ...]) -> tuple[HostConfig, ...]:
        if not hosts:
            raise ValueError("name at least one host")
        places = [(host.address, host.port) for host in hosts]
        if twice := next((place for place in places if places.count(place) > 1), None):
            raise ValueError(f"{twice[0]} is named twice: one worker runs on each host")
        return hosts

    @field_validator("python", "output", "folder")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith(("/", "~/")):
            raise ValueError("it must be a path from / or ~/ on, for it is looked up on the hosts")
        return None if path is None else posixpath.normpath(path)

    @model_validator(mode="after")
    def _even_groups(self) -> SshTargetConfig:
        sizes = {group: len(hosts) for group, hosts in self.groups().items()}
        if len(set(sizes.values())) > 1:
            told = ", ".join(f"{group or 'no group'} has {size}" for group, size in sizes.items())
            raise ValueError(f"groups are slices, and slices are of one size: {told}")
        return self

    def groups(self) -> dict[str | None, list[HostConfig]]:
        """Returns the hosts of each group, in the order of the file."""
        groups: dict[str | None, list[HostConfig]] = {}
        for host in self.hosts:
            groups.setdefault(host.group, []).append(host)
        return groups

    @property
    def slices(self) -> int:
        """How many slices the groups are."""
        return len(self.groups())

    @property
    def workers(self) -> int:
        """How many hosts there are to use."""
        return len(self.hosts)

    def used(self, workers: int) -> tuple[HostConfig, ...]:
        """Returns the first hosts of each group, slice by slice, `workers` in all: as many of each."""
        groups = self.groups().values()
        return tuple(host for hosts in groups for host in hosts[: workers // len(groups)])

    def with_choices(self, workers: int | None, devices_per_worker: int | None) -> SshTargetConfig:
        """Returns the target with what a request chose differently; None leaves the file's value.

        Raises BadInput for more workers than hosts, or a number that the groups cannot share evenly.
        """
        if workers is not None and (workers > self.workers or workers % self.slices):
            each = f", evenly over {self.slices} groups" if self.slices > 1 else ""
            raise BadInput(
                f"--workers {workers}: the target has {counted(self.workers, 'host')}{each}",
                fix="name more hosts in the target file, or ask for fewer workers",
            )
        hosts = self.hosts if workers is None else self.used(workers)
        devices = self.devices_per_worker if devices_per_worker is None else devices_per_worker
        return self.model_copy(update={"hosts": hosts, "devices_per_worker": devices})
