"""Model of a cluster of GKE that is to be: its accelerators, how they are paid for, its network, its CPU machines."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from runtime.contract.errors import BadInput, Problem
from tasks.config import duration
from tasks.config.accelerators import Accelerator, Capacity, accelerator

_FORBID = ConfigDict(extra="forbid", frozen=True)
_ZONE = re.compile(r"[a-z]+(-[a-z]+)*-[a-z]+\d+-[a-z]")
_LONGEST_FLEX_S = 7 * 86400.0

CHANNELS = ("rapid", "regular", "stable", "extended")


class CpuPool(BaseModel):
    """Machines for what is no workload: controllers, DNS, coordinators. They come and go with what runs on them."""

    model_config = _FORBID

    machine_type: str = Field(
        "e2-standard-16", description="Machine type; every zone of the cluster must have it"
    )
    nodes: int = Field(1, ge=1, description="Machines at least, in all")
    most: int | None = Field(
        None, ge=1, description="Machines at most; not given: as the size of the rest needs"
    )
    disk_gb: int = Field(100, ge=10, description="Boot disk of each")


class ClusterConfig(BaseModel):
    """A cluster as it is to be. Called again for another number of slices, it is a cluster that changes."""

    model_config = _FORBID

    zone: str = Field(pattern=f"^{_ZONE.pattern}$", description="Where all machines are")
    regional: bool = Field(
        True, description="Control plane in the region, so that it survives a zone; else in the zone"
    )
    type: str | None = Field(
        None, description="Accelerator type of one slice, e.g. v5litepod-16; none: CPU machines only"
    )
    topology: str | None = Field(None, description="Which shape, where a type has several")
    slices: int = Field(
        1, ge=0, le=1000, description="TPU slices, a node pool each; 0: give them back, keep the rest"
    )
    nodes: int | None = Field(None, ge=0, description="Machines of a GPU or CPU type, in one node pool")
    capacity: Capacity = Field("on_demand", description="How accelerators are paid for")
    reservations: tuple[str, ...] = Field(
        (),
        description="For capacity: reservation, name or projects/P/reservations/R; several are filled in order",
    )
    max_run: str | None = Field(
        None,
        pattern=duration.PATTERN,
        description="Accelerators go by themselves after so long; flex_start: at most 7d",
    )
    placement_policy: str | None = Field(
        None, description="Workload policy that is there, for types whose hosts need one (tpu7x)"
    )
    channel: str = Field("regular", pattern=f"^({'|'.join(CHANNELS)})$", description="Release channel")
    version: str | None = Field(
        None, description="Version of GKE, e.g. 1.33; not given: the channel's default"
    )
    network: str | None = None
    subnetwork: str | None = None
    pods_range: str | None = Field(None, description="Secondary range of the subnetwork, or CIDR, for pods")
    services_range: str | None = Field(None, description="The same, for services")
    private: bool = Field(False, description="Nodes without public addresses")
    private_endpoint: bool = Field(False, description="Control plane without one, too")
    authorized_networks: tuple[str, ...] = Field(
        (), description="Who reaches the control plane: CIDRs, or NAME=CIDR"
    )
    workload_identity: bool = Field(False, description="Pods act as their Kubernetes service account")
    service_account: str | None = Field(None, description="E-mail of the account that nodes act as")
    image_streaming: bool = Field(
        False, description="Start containers before their image is there as a whole"
    )
    autoprovision: int | None = Field(
        None, ge=1, description="Chips that GKE may add by itself when pods ask for them"
    )
    cpu_pool: CpuPool = Field(default_factory=lambda: CpuPool.model_validate({}))
    cluster_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields of the API's Cluster, by path"
    )
    cpu_pool_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="The same, of the CPU pool's NodePool"
    )
    pool_fields: Mapping[str, Any] = Field(
        default_factory=dict, description="The same, of accelerators' NodePools"
    )

    @model_validator(mode="before")
    @classmethod
    def _capacity_of_reservations(cls, given: Any) -> Any:
        """A reservation that is named is how things are paid for."""
        if isinstance(given, dict) and given.get("reservations") and given.get("capacity") is None:
            return {**given, "capacity": "reservation"}
        return given

    @field_validator("reservations", "authorized_networks", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @field_validator("authorized_networks")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            try:
                ipaddress.ip_network(one.rpartition("=")[2])
            except ValueError as error:
                raise ValueError(f"{one!r} is no network such as 203.0.113.0/24 ({error})") from None
        return given

    @model_validator(mode="after")
    def _makes_sense(self) -> ClusterConfig:
        for wrong in (*self._contradictions(), *self._unfit()):
            raise ValueError(wrong)
        return self

    def _contradictions(self) -> Iterator[str]:
        if (self.capacity == "reservation") != bool(self.reservations):
            yield f"capacity: {self.capacity} and reservations: do not go together"
        if (
            self.capacity == "flex_start"
            and self.max_run
            and duration.seconds(self.max_run) > _LONGEST_FLEX_S
        ):
            yield "flex_start gives machines for 7d at most: shorten max_run"
        if self.private_endpoint and not self.private:
            yield "private_endpoint needs private: true"
        if self.autoprovision and (self.type is None or self.slices):
            yield "autoprovision takes the place of slices: name a type, and slices: 0"
        if self.cpu_pool.most is not None and self.cpu_pool.most < self.cpu_pool.nodes:
            yield "cpu_pool: most is less than nodes"

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
            yield f"{self.type} names no machine type: a cluster that is made needs one"
        if self.capacity not in shape.capacities:
            yield f"{self.type} is not given as {self.capacity}, but as {' or '.join(sorted(shape.capacities))}"
        if shape.gpu_direct is not None:
            yield (
                f"{self.type} reaches other hosts by GPUDirect-{shape.gpu_direct.upper()}, which needs networks of its "
                "own that slicebench does not make, and without them it would be slow: make the cluster by Cluster "
                "Toolkit, and name its context in the target; l4 and a100 need none"
            )
        if shape.placement == "workload_policy" and self.placement_policy is None:
            yield (
                f"the hosts of {self.type} need a workload policy (HIGH_THROUGHPUT, {shape.topology}): make it by "
                "gcloud compute resource-policies create workload-policy, and name it in placement_policy"
            )

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
        if self.private and not self.authorized_networks:
            what = "nobody outside the network reaches the control plane of a private cluster"
            found.append(Problem("warning", None, what, fix="name who does with --authorized-network"))
        if self.nodes is not None and not self.counts_nodes:
            found.append(
                Problem("warning", None, "--nodes is for GPUs and CPUs; a TPU type says how many hosts it is")
            )
        return found
