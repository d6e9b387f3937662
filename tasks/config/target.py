"""Models of the files in configs/targets/, one per kind of target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tasks.config.as_flags import Flags
from tasks.config.findings import checked
from tasks.config.gke_target import GkeTargetConfig
from tasks.config.sidecar import BESIDE, WithSidecar
from tasks.config.ssh_target import SshTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig


class LocalTargetConfig(WithSidecar):
    """This machine: every worker is a process here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["local"]
    platform: Literal["cpu", "gpu"] = Field("cpu", description="What the workers compute on")
    workers: int = Field(2, gt=0, le=64, description="Worker processes")
    slices: int = Field(1, gt=0, le=64, description="Slices the workers are divided into, evenly")
    devices_per_worker: Annotated[int, Field(gt=0, le=4096)] | Literal["auto"] = Field(
        "auto", description="Devices of each worker; auto: as many as the suite's meshes need"
    )

    python: str | None = Field(
        None,
        description="Interpreter that has jax and orbax-checkpoint, used as it is; not given: a venv is built",
    )

    nested: ClassVar[Mapping[str, type[BaseModel]]] = BESIDE

    @field_validator("python")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith(("/", "~/")):
            raise ValueError("it must be a path from / or ~/ on")
        return path

    def with_choices(self, workers: int | None, devices_per_worker: int | None) -> LocalTargetConfig:
        """Returns the target with what a request chose differently; None leaves the file's value.

        Raises BadInput for a choice that the file could not have made either.
        """
        asked = {"workers": workers, "devices_per_worker": devices_per_worker}
        chosen = {name: value for name, value in asked.items() if value is not None}
        return checked(type(self), self.model_dump() | chosen, Flags())


TargetConfig = Annotated[
    LocalTargetConfig | SshTargetConfig | TpuVmTargetConfig | GkeTargetConfig, Field(discriminator="kind")
]
