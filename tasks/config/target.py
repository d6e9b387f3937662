"""Models of the files in configs/targets/, one per kind of target."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tasks.config.ssh_target import SshTargetConfig
from tasks.config.tpu_target import TpuVmTargetConfig


class LocalTargetConfig(BaseModel):
    """This machine: every worker is a process here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["local"]
    platform: Literal["cpu", "gpu"] = Field("cpu", description="What the workers compute on")
    workers: int = Field(2, gt=0, le=64, description="Worker processes")
    slices: int = Field(1, gt=0, description="Slices the workers are divided into, evenly")
    devices_per_worker: int | Literal["auto"] = Field(
        "auto", description="Devices of each worker; auto: as many as the suite's meshes need"
    )

    def with_choices(self, workers: int | None, devices_per_worker: int | None) -> LocalTargetConfig:
        """Returns the target with what a request chose differently; None leaves the file's value."""
        chosen = {"workers": workers, "devices_per_worker": devices_per_worker}
        return self.model_copy(update={name: value for name, value in chosen.items() if value is not None})


TargetConfig = Annotated[LocalTargetConfig | SshTargetConfig | TpuVmTargetConfig, Field(discriminator="kind")]
