"""Model of a target file for TPU VMs: slices that are made for a run, or some that exist."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from runtime.contract.errors import BadInput
from tasks.config import patterns, size
from tasks.config.duration import PATTERN, seconds
from tasks.config.sidecar import BESIDE, WithSidecar

_FORBID = ConfigDict(extra="forbid", frozen=True)
_PYTHON = "3.12"
_Zone = Annotated[str, Field(pattern=patterns.ZONE)]
_Tag = Annotated[str, Field(pattern=patterns.TAG)]
_Path = Annotated[str, Field(pattern=patterns.ONE_LINE)]
_Models = Mapping[str, type[BaseModel]]  # by a name of its own: within the model `type` is a field


def _moment(value: Any) -> Any:
    """Takes a span from now on ("90m", "2h") for a moment, and a moment without a zone for UTC."""
    if isinstance(value, str) and re.match(PATTERN, value):
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds(value))
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


Moment = Annotated[datetime.datetime, BeforeValidator(_moment)]


class TpuLimits(BaseModel):
    """How long each part of getting hardware and giving it back may take, seconds. null: without end, or as it says."""

    model_config = _FORBID

    queue_s: float | None = Field(
        4 * 3600.0,
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
        description="In the queue of each zone, from valid_after on, until hardware is found",
    )
    provisioning_s: float | None = Field(
        1800.0,
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
        description="From then on, until every worker is there",
    )
    teardown_s: float | None = Field(
        None,
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
        description="Until what is given back is seen to be gone; else the run has leaked it, and the reaper goes on. "
        "null: 900 for slices, 120 for what is on hosts that stay",
    )
    apt_locks_s: float = Field(
        300.0,
        gt=0,
        le=patterns.MOST_S,
        allow_inf_nan=False,
        description="For apt's locks, before a setup script runs",
    )
    attempts: int = Field(
        3,
        ge=1,
        le=patterns.MOST_STARTS,
        description="Starts of the workload, when slices are taken away under it",
    )


class TpuVmTargetConfig(WithSidecar):
    """Cloud TPU VMs: a node or queued resource made for the run, or one that exists (which stays)."""

    model_config = _FORBID

    kind: Literal["tpu_vm"]
    project: str | None = Field(
        None,
        pattern=patterns.PROJECT,
        description="Google Cloud project; from the environment when not given",
    )
    zones: tuple[_Zone, ...] = Field((), description="Zones to try, in order; the next when one has no room")
    existing: str | None = Field(
        None,
        pattern=patterns.TAG,
        description="Exact name of a TPU VM or queued resource that is there: used, never deleted",
    )
    type: str = Field(pattern=patterns.ONE_WORD, description="Accelerator type of one slice, e.g. v6e-16")
    slices: int = Field(1, ge=1, le=256, description="Slices, each of that type")
    tier: Literal["on_demand", "spot", "reserved"] = Field("on_demand", description="How it is paid for")
    reservation: str | None = Field(
        None, pattern=patterns.ONE_WORD, description="Name of the reservation, for tier: reserved"
    )
    queued: bool | Literal["auto"] = Field(
        "auto", description="Make a queued resource; auto: for several slices, times and reservations"
    )
    valid_after: Moment | None = Field(None, description="Not before: a moment, or a span like 2h")
    valid_until: Moment | None = Field(
        None, description="Give up waiting in the queue: a moment, or a span like 2h"
    )
    runtime_version: str | None = Field(
        None, pattern=patterns.ONE_WORD, description="Software of the VMs; not given: as the type needs"
    )
    network: str | None = Field(None, pattern=patterns.NETWORK)
    subnetwork: str | None = Field(None, pattern=patterns.NETWORK)
    service_account: str | None = Field(
        None, pattern=patterns.EMAIL, description="E-mail of the account that workers act as"
    )
    tags: tuple[_Tag, ...] = Field((), description="Network tags, for firewall rules")
    addresses: Literal["external", "internal", "iap"] = Field(
        "external",
        description="Where workers are reached; internal needs a way into the network, iap (a tunnel) gcloud",
    )
    user: str = Field(
        "slicebench", pattern=patterns.USER, description="Whom to log in as; made when it is missing"
    )
    ssh_port: int = Field(22, gt=0, lt=65536)
    setup: tuple[_Path, ...] = Field(
        (),
        description="Scripts that are run on each worker first, in this order, once for each content of one",
    )
    python: str | None = Field(
        None,
        description="Interpreter on the workers that has jax and orbax, setup: may make it; not given: a venv is made",
    )
    python_version: Literal["3.11", "3.12", "3.13", "3.14"] | None = Field(
        None,
        description=f"Python of the venv that is made, brought where it is missing; not given: {_PYTHON}",
    )
    folder: str = Field("~/.slicebench", description="Where slicebench keeps its things on the workers")
    ram_directory: str | None = Field(
        None,
        pattern=size.PATTERN,
        description="Size of a directory in the memory of each worker, as 64GiB: the workers' local directory",
    )
    limits: TpuLimits = Field(default_factory=lambda: TpuLimits.model_validate({}))
    platform: Literal["tpu", "cpu"] = Field("tpu", description="What the workers compute on")

    nested: ClassVar[_Models] = {"limits": TpuLimits, **BESIDE}

    @field_validator("zones", "setup", mode="before")
    @classmethod
    def _one_or_many(cls, zones: Any) -> Any:
        return (zones,) if isinstance(zones, str) else zones

    @field_validator("python", "folder")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith(("/", "~/")):
            raise ValueError("it must be a path from / or ~/ on, for it is looked up on the workers")
        return path

    @model_validator(mode="after")
    def _makes_sense(self) -> TpuVmTargetConfig:
        if (self.tier == "reserved") != (self.reservation is not None):
            raise ValueError("tier: reserved and reservation: belong together")
        if self.python is not None and self.python_version is not None:
            raise ValueError("python_version: is for the venv that is made where python: names none")
        if self.valid_after and self.valid_until and self.valid_after >= self.valid_until:
            raise ValueError("valid_after must come before valid_until")
        if self.queued is False and self.needs_queue:
            raise ValueError(f"{self.needs_queue} need a queued resource: leave queued out")
        return self

    @property
    def venv_python(self) -> str:
        """Version, as X.Y, of the Python that venvs on the workers are made with."""
        return self.python_version or _PYTHON

    @property
    def needs_queue(self) -> str:
        """Says what a plain node cannot do; empty when it can do all."""
        if self.slices > 1:
            return "several slices"
        if self.reservation is not None:
            return "reservations by name"
        return "valid_after and valid_until" if self.valid_after or self.valid_until else ""

    @property
    def as_queued(self) -> bool:
        """Whether a queued resource is made, not a node."""
        if self.queued == "auto":
            return bool(self.needs_queue)
        return self.queued

    def with_choices(self, workers: int | None, devices_per_worker: int | None) -> TpuVmTargetConfig:
        """Returns the target itself: its type says how many workers and devices. Raises BadInput for other numbers."""
        if workers is not None or devices_per_worker is not None:
            raise BadInput(
                "workers and devices of a TPU target follow from its type",
                fix=f"leave --workers and --devices-per-worker out, or choose another type than {self.type}",
            )
        return self
