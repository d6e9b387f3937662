"""Model of a cluster of GKE that is to be: its accelerators, how they are paid for, its network, its CPU machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from runtime.contract.errors import BadInput, Problem
from tasks.config import duration, patterns
from tasks.config.accelerators import Accelerator, Capacity, accelerator
from tasks.config.cluster_make import ClusterMake

Reservation = Annotated[str, Field(pattern=patterns.RESERVATION)]

_LONGEST_FLEX_S = 7 * 86400.0

_MOST_NODES = 15_000
"""Nodes that GKE takes in one cluster."""


class ClusterConfig(ClusterMake):
    """A cluster as it is to be. Called again for another number of slices, it is a cluster that changes."""

    zone: str = Field(pattern=patterns.ZONE, description="Where all machines are")
    type: str | None = Field(
        None, description="Accelerator type of one slice, e.g. v5litepod-16; none: CPU machines only"
    )
    topology: str | None = Field(None, description="Which shape, where a type has several")
    slices: int = Field(
        1, ge=0, le=1000, description="TPU slices, a node pool each; 0: give them back, keep the rest"
    )
    nodes: int | None = Field(None, ge=0, description="Machines of a GPU or CPU type, in one node pool")
    capacity: Capacity = Field("on_demand", description="How accelerators are paid for")
    reservations: tuple[Reservation, ...] = Field(
        (),
        description="For capacity: reservation, name or projects/P/reservations/R; several are filled in order",
    )

    autoscaling: bool = Field(
        False, description="TPU machines come when pods ask for them, and go: a whole slice or none"
    )
    pool_prefix: str = Field(
        "np", pattern=patterns.POOL_PREFIX, description="Names of accelerators' node pools begin so"
    )

    @model_validator(mode="before")
    @classmethod
    def _capacity_of_reservations(cls, given: Any) -> Any:
        """A reservation that is named is how things are paid for."""
        if isinstance(given, dict) and given.get("reservations") and given.get("capacity") is None:
            return {**given, "capacity": "reservation"}
        return given

    @field_validator("reservations", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @model_validator(mode="after")
    def _makes_sense(self) -> ClusterConfig:
        for wrong in (*self._contradictions(), *self._unfit()):
            raise ValueError(wrong)
        return self

    def _contradictions(self) -> Iterator[str]:
        if self.capacity == "reservation" and not self.reservations:
            yield "capacity: reservation names no reservation: add reservations: [NAME]"
        elif self.capacity != "reservation" and self.reservations:
            yield f"capacity: {self.capacity} and reservations: do not go together"
        if (
            self.capacity == "flex_start"
            and self.max_run
            and duration.seconds(self.max_run) > _LONGEST_FLEX_S
        ):
            yield "flex_start gives machines for 7d at most: shorten max_run"
        if self.autoscaling and (self.type is None or self.counts_nodes):
            yield "autoscaling is for TPU slices: name a TPU type"
        if self.autoprovision and (self.type is None or self.slices):
            yield "autoprovision takes the place of slices: name a type, and slices: 0"

    def _unfit(self) -> Iterator[str]:
        """Yields what does not go with the type."""
        try:
            shape = self.shape
        except BadInput as error:
            yield str(error)
            return
        if shape is None:
            return
        if not shape.machine_type:
            yield f"{self.type} names no machine type: a cluster that is made needs one, such as n2-standard-32-1"
        if self.machines > _MOST_NODES:
            yield f"{self.machines} machines are more than the {_MOST_NODES} that GKE takes in one cluster"
        if self.capacity not in shape.capacities:
            yield f"{self.type} is not given as {self.capacity}, but as {' or '.join(sorted(shape.capacities))}"
        yield from self._unconnected(shape)

    def _unconnected(self, shape: Accelerator) -> Iterator[str]:
        """Yields why GPUs could not reach those of other hosts as they should: never missing without a word."""
        elsewhere = "make the cluster by Cluster Toolkit, and name its context in the target"
        if shape.arm and shape.gpu_direct is not None:
            yield (
                f"hosts of {self.type} share one NVLink domain of 72 GPUs, whose placement and drivers slicebench does "
                f"not set up: {elsewhere}"
            )
        elif shape.gpu_direct in ("tcpx", "tcpxo") and self.gpu_networks == "auto" and self.machines > 1:
            yield (
                f"{self.type} reaches other hosts by GPUDirect-{shape.gpu_direct.upper()}, for which GKE makes no "
                f"networks by itself, and without them it would be slow: {elsewhere}; or say gpu_networks: none for "
                "TCP. One host alone, l4 and a100 need none, and h200 and b200 get theirs"
            )

    @property
    def joins_gpus(self) -> bool:
        """Whether GKE makes networks for the GPUs of all hosts: RDMA over interfaces that pods claim."""
        shape = self.shape
        return shape is not None and shape.gpu_direct == "rdma" and self.gpu_networks == "auto"

    @property
    def shape(self) -> Accelerator | None:
        """What one slice is made of; None: there are no accelerators. Raises BadInput."""
        if self.type is None:
            return None
        return accelerator(self.type, self.topology)

    @property
    def counts_nodes(self) -> bool:
        """Whether accelerators are machines of one node pool, and not slices of one each."""
        return self.shape is not None and self.shape.kind != "tpu"

    @property
    def machines(self) -> int:
        """How many machines there are to be, all slices together."""
        shape = self.shape
        if shape is None:
            return 0
        if not self.counts_nodes:
            return self.slices * shape.hosts
        return self.nodes if self.nodes is not None else self.slices * shape.hosts

    @property
    def location(self) -> str:
        """Region or zone of the control plane."""
        return self.zone.rpartition("-")[0] if self.regional else self.zone

    def warnings(self) -> list[Problem]:
        """Returns what is allowed, and may not be what is meant."""
        shape, found = self.shape, []
        if shape is not None and shape.kind == "tpu" and shape.hosts == 1 and self.slices > 1:
            what = f"{self.slices} slices of {self.type} cannot work together: multislice needs slices of several hosts"
            found.append(Problem("warning", None, what, fix="they serve workloads of one slice each"))
        if self.private and not (self.authorized_networks or self.by_dns):
            what = "nobody outside the network reaches the control plane of a private cluster"
            found.append(Problem("warning", None, what, fix="name who does with --authorized-network"))
        if self.joins_gpus:
            what = f"pods on {self.type} get the networks that GKE makes by a claim of the class mrdma.google.com alone"
            fix = "see docs/gke.md; pods of slicebench's own targets do not claim them yet"
            found.append(Problem("warning", None, what, fix=fix))
        if self.nodes is not None and not self.counts_nodes:
            found.append(
                Problem("warning", None, "--nodes is for GPUs and CPUs; a TPU type says how many hosts it is")
            )
        return found
