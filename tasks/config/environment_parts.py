"""Parts of an environment's file: its network, control plane, TPU pools, accounts, storage, and teams."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tasks.config import duration, patterns
from tasks.config.accelerators import Capacity
from tasks.config.cluster_make import Channel, CpuPool
from tasks.config.environment_names import wrong_bucket, wrong_range

_FORBID = ConfigDict(extra="forbid", frozen=True)

SUBNET_RANGE, PODS_RANGE, SERVICES_RANGE = "10.129.0.0/20", "192.168.64.0/20", "192.168.80.0/20"
"""Where nothing else is said and the nodes find room in them."""

Role = Annotated[str, Field(pattern=patterns.ROLE)]


class Network(BaseModel):
    """The VPC network with one subnetwork, and its ranges of addresses."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.TAG, description="VPC network")
    subnet: str = Field(pattern=patterns.TAG, description="Its subnetwork in the region")
    subnet_range: str | None = Field(
        None, description=f"Addresses of nodes; not given: {SUBNET_RANGE}, or as many as the nodes need"
    )
    pods_range: str | None = Field(
        None, description=f"Addresses of pods; not given: {PODS_RANGE}, or as many as the nodes need"
    )
    services_range: str | None = Field(
        None, description=f"Addresses of services; not given: {SERVICES_RANGE}"
    )
    pods_range_name: str = Field("pods", pattern=patterns.TAG, description="Name of the range of pods")
    services_range_name: str = Field("services", pattern=patterns.TAG, description="Name of that of services")
    existing: bool = Field(False, description="Network and subnetwork are there: they are used, and stay")
    host_project: str | None = Field(
        None, pattern=patterns.PROJECT, description="Project of a shared VPC; only with existing: true"
    )
    nat: bool | None = Field(
        None,
        description="A router with NAT, by which nodes reach the outside; not given: if they are private, and the "
        "network is no shared VPC and has none",
    )
    router: str | None = Field(
        None, pattern=patterns.TAG, description="Its name; not given: the network's, with -router"
    )
    iap: bool = Field(
        True, description="Let Identity-Aware Proxy reach the SSH port of nodes, in a network that is made"
    )

    @field_validator("subnet_range", "pods_range", "services_range")
    @classmethod
    def _is_a_range(cls, given: str | None) -> str | None:
        if given is None:
            return None
        try:
            found = ipaddress.IPv4Network(given)
        except ValueError as error:
            raise ValueError(f"{given!r} is no range such as 10.129.0.0/20 ({error})") from None
        if not 8 <= found.prefixlen <= 28:
            raise ValueError(f"{given!r} is no range that a subnetwork can have: from /8 to /28")
        if wrong := wrong_range(given):
            raise ValueError(wrong)
        return str(found)

    @model_validator(mode="after")
    def _fits_together(self) -> Network:
        if self.host_project is not None and not self.existing:
            raise ValueError("host_project: a shared VPC is there already: add existing: true")
        if self.router is not None and self.nat is False:
            raise ValueError("router: nat: false makes none: leave one of them out")
        if self.pods_range_name == self.services_range_name:
            raise ValueError(
                f"services_range_name: {self.services_range_name} is pods_range_name as well: a subnetwork has each "
                "name once"
            )
        return self


class ControlPlane(BaseModel):
    """The cluster without its node pools."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.CLUSTER_NAME, description="Cluster of GKE")
    description: str = Field(
        "TPU training and checkpoint benchmarks", max_length=1000, description="What people read about it"
    )
    channel: Channel = Field("stable", description="Release channel")
    version: str | None = Field(
        None,
        pattern=patterns.VERSION,
        description="Version of GKE, e.g. 1.33; not given: the channel's default",
    )
    regional: bool = Field(True, description="Control plane in the region, so that it survives a zone")
    maintenance: str | None = Field(
        None, pattern=patterns.TIME_OF_DAY, description="When GKE may upgrade, each day from this time of UTC"
    )
    private: bool = Field(
        False, description="Nodes without public addresses; then there is a router with NAT"
    )
    private_endpoint: bool = Field(False, description="Control plane without one, too")
    authorized_networks: tuple[str, ...] = Field(
        (), description="Who reaches the control plane by its address: CIDRs, or NAME=CIDR"
    )
    logging: bool = Field(True, description="Cloud Logging of system and workloads")
    monitoring: bool = Field(True, description="Cloud Monitoring; nodes may write metrics then")
    image_streaming: bool = Field(
        False, description="Start containers before their image is there as a whole"
    )
    fields: Mapping[str, Any] = Field(
        default_factory=dict, description="Fields of the API's Cluster, by path"
    )

    @field_validator("maintenance", mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        if isinstance(given, int):
            minutes = f"{given // 60:02d}:{given % 60:02d}"
            raise ValueError(f'write it in quotes, "{minutes}": without, YAML makes a number of it, {given}')
        return given


class EnvironmentCpuPool(CpuPool):
    """Machines for controllers, and for what needs no TPU."""

    machine_type: str = Field("n1-standard-4", pattern=patterns.TAG, description="Machine type")
    nodes: int = Field(3, ge=1, le=15000, description="Machines at least, in all")
    disk_gb: int = Field(200, ge=10, le=65536, description="Boot disk of each")
    disk_type: str | None = Field("pd-standard", description="Its type, e.g. pd-balanced")


class TpuPools(BaseModel):
    """What each TPU pool is: one slice. How many there are is `tpu_pools`, beside this."""

    model_config = _FORBID

    machine_type: str = Field("ct4p-hightpu-4t", pattern=patterns.TAG, description="TPU machine type")
    topology: str | None = Field(
        None, description="Topology of a slice; not given: 2x2x2 of ct4p-hightpu-4t, else of one host"
    )
    hosts: int | None = Field(
        None, ge=1, description="Machines of a slice: follows from the topology, and must agree with it"
    )
    autoscaling: bool = Field(
        False, description="Machines come when pods ask for them, and go: a whole slice or none"
    )
    pool_prefix: str = Field(
        "tpu-node-pool", pattern=patterns.POOL_PREFIX, description="Names of pools begin so; -0, -1 … follow"
    )
    multislice_group: str = Field(
        "multi-slice-group",
        pattern=patterns.LABEL_VALUE,
        description="Label of the nodes of all pools, by which pods are kept together",
    )
    capacity: Capacity = Field("on_demand", description="How they are paid for")
    reservations: tuple[str, ...] = Field((), description="For capacity: reservation, by name")
    max_run: str | None = Field(
        None, pattern=duration.PATTERN, description="Machines go by themselves after so long"
    )
    fields: Mapping[str, Any] = Field(default_factory=dict, description="Fields of the API's NodePool")

    @field_validator("reservations", mode="before")
    @classmethod
    def _one_or_many(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names


_STORAGE_AND_LOGS = ("roles/storage.objectAdmin", "roles/logging.logWriter")


def _full(given: Any) -> Any:
    """Lets people leave out what every role begins with."""
    if not isinstance(given, list | tuple):
        return given
    short = (one for one in given)
    return tuple(f"roles/{one}" if isinstance(one, str) and "/" not in one else one for one in short)


class NodeAccount(BaseModel):
    """The account that machines act as."""

    model_config = _FORBID

    name: str = Field("gke-sa", pattern=patterns.ACCOUNT, description="Id of the account, before the @")
    roles: tuple[Role, ...] = Field(
        (*_STORAGE_AND_LOGS, "roles/artifactregistry.reader"), description="Its roles on the project"
    )

    _roles = field_validator("roles", mode="before")(_full)


class WorkloadAccount(BaseModel):
    """The account that pods act as, by Workload Identity."""

    model_config = _FORBID

    name: str = Field("cloud-tpu-sa", pattern=patterns.ACCOUNT, description="Id of the account, before the @")
    roles: tuple[Role, ...] = Field(_STORAGE_AND_LOGS, description="Its roles on the project")
    kubernetes: str = Field(
        "cloud-tpu-sa", pattern=patterns.DNS_LABEL, description="Kubernetes service account that acts as it"
    )

    _roles = field_validator("roles", mode="before")(_full)


class Accounts(BaseModel):
    """The two accounts."""

    model_config = _FORBID

    nodes: NodeAccount = Field(default_factory=lambda: NodeAccount.model_validate({}))
    workloads: WorkloadAccount = Field(default_factory=lambda: WorkloadAccount.model_validate({}))

    @model_validator(mode="after")
    def _are_two(self) -> Accounts:
        if self.nodes.name == self.workloads.name:
            raise ValueError(
                "workloads: nodes and workloads need accounts of their own: give one another name"
            )
        return self


class Bucket(BaseModel):
    """Where runs write, and images and code may lie. It stays when the environment goes, unless it is asked for."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.BUCKET_NAME, description="Bucket, without gs://")
    location: str | None = Field(None, pattern=patterns.BUCKET_PLACE, description="Not given: the region")
    storage_class: str = Field(
        "STANDARD", pattern=patterns.STORAGE_CLASS, description="STANDARD, NEARLINE, COLDLINE or ARCHIVE"
    )
    versioning: bool = Field(False, description="Keep what is written over")
    force_destroy: bool = Field(
        False, description="When it is asked to go, it goes with all that is in it; else only if it is empty"
    )

    @field_validator("name")
    @classmethod
    def _can_be_called_so(cls, name: str) -> str:
        if wrong := wrong_bucket(name):
            raise ValueError(wrong)
        return name


class Registry(BaseModel):
    """Artifact Registry for the images of workers."""

    model_config = _FORBID

    name: str = Field("ml-images", pattern=patterns.TAG, description="Repository of container images")
    location: str | None = Field(
        None,
        pattern=patterns.REGISTRY_PLACE,
        description="Region, or us, europe, asia; not given: the region",
    )


class TensorBoard(BaseModel):
    """TensorBoard of Vertex AI."""

    model_config = _FORBID

    name: str | None = Field(None, pattern=patterns.TAG, description="Its display name; not given: the name")
    location: str | None = Field(
        None,
        pattern=patterns.LOCATION,
        description="Region; not given: this one, or us-central1 for us-central2",
    )


class Team(BaseModel):
    """People who share the TPUs with others: a namespace with a queue of its own."""

    model_config = _FORBID

    name: str = Field(pattern=patterns.DNS_LABEL, description="What it is called")
    namespace: str | None = Field(
        None, pattern=patterns.DNS_LABEL, description="Where its workloads are; not given: its name"
    )
    slices: int | None = Field(
        None, ge=0, description="Slices that are its own; not given: all teams without share what is left"
    )
    borrow: int | None = Field(
        None, ge=0, description="Slices it may borrow of what others leave idle; not given: all of them"
    )
    lend: int | None = Field(
        None, ge=0, description="Slices of its own that others may borrow; not given: all of them"
    )

    @model_validator(mode="after")
    def _of_its_own(self) -> Team:
        for word in ("borrow", "lend"):
            if self.slices is None and getattr(self, word) is not None:
                raise ValueError(f"{word}: only who has slices of its own can {word}: add slices")
        if self.slices is not None and self.lend is not None and self.lend > self.slices:
            raise ValueError(f"lend: a team of {self.slices} cannot lend {self.lend}")
        return self
