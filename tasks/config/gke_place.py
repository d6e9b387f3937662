"""Model of where a GKE target's cluster is, and how it is made and paid for when it is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tasks.config import patterns
from tasks.config.accelerators import Capacity
from tasks.config.cluster_make import ClusterMake
from tasks.config.gke_fields import Reservations

_FORBID = ConfigDict(extra="forbid", frozen=True)


class ClusterPlace(BaseModel):
    """A cluster of GKE, known by name; made for the run when it is missing, unless that is forbidden."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.CLUSTER_NAME, description="Its exact name")
    project: str | None = Field(
        None,
        pattern=patterns.PROJECT,
        description="Google Cloud project; from the environment when not given",
    )
    location: str | None = Field(
        None, pattern=patterns.LOCATION, description="Zone or region; from the environment when not given"
    )
    zone: str | None = Field(
        None,
        pattern=patterns.ZONE,
        description="Where machines are made, for a cluster that is made in a region; else its location",
    )
    create: Literal["if_missing", "never"] = Field("if_missing", description="Whether the run may make it")
    capacity: Capacity | None = Field(
        None,
        description="How what is made is paid for; not given: spot. Given, pods go to nodes of that kind only",
    )
    reservations: Reservations = Field(
        (),
        description="For capacity: reservation, its name or projects/P/reservations/R; several are filled in order",
    )
    make: ClusterMake | None = Field(
        None, description="What it is like when it is made: private, authorized_networks, cluster_fields …"
    )

    @model_validator(mode="after")
    def _belong_together(self) -> ClusterPlace:
        if (self.capacity == "reservation") != bool(self.reservations):
            raise ValueError("capacity: reservation and reservations: belong together")
        if self.zone and self.location and f"{self.zone}-".find(f"{self.location}-") != 0:
            raise ValueError(
                f"zone: {self.zone} is not in {self.location}: write a zone of that, or leave zone: out"
            )
        if self.make is not None and self.create == "never":
            raise ValueError("make: says how it is made, which create: never forbids")
        return self

    @property
    def machines_zone(self) -> str | None:
        """The zone in which machines are made; None: it names a region alone, or nothing."""
        if self.zone is None and self.location is not None and re.fullmatch(patterns.ZONE, self.location):
            return self.location
        return self.zone

    @property
    def make_fields(self) -> Mapping[str, Any]:
        """What the file says of how it is made, as fields of a ClusterConfig."""
        return self.make.model_dump(exclude_unset=True) if self.make is not None else {}

    @property
    def capacity_made(self) -> Capacity:
        """How node pools that a run makes are paid for."""
        return self.capacity or "spot"
