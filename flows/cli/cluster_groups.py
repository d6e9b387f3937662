"""Flags of `slicebench cluster create`, in the groups in which --help shows them; each tells fields of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from flows.cli.flag_groups import flattened


class Flags:
    """A group of flags. None and empty: not given."""

    def asked(self) -> Mapping[str, Any]:
        """Returns fields of ClusterConfig."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]


@flattened("Accelerators", 1)
@dataclass(frozen=True)
class Accelerators(Flags):
    """What is made for workloads to run on, and how that is paid for."""

    type: Annotated[
        str | None, Parameter(help="Accelerator type of one slice, e.g. v5litepod-16; none: CPUs")
    ] = None
    slices: Annotated[
        int | None, Parameter(help="Slices of that type, else 1; 0: give them back, keep the rest")
    ] = None
    nodes: Annotated[int | None, Parameter(help="Machines of a GPU or CPU type")] = None
    topology: Annotated[str | None, Parameter(help="Which shape, where a type has several")] = None
    capacity: Annotated[
        Literal["on_demand", "spot", "reservation", "flex_start"] | None,
        Parameter(
            help="How accelerators are paid for; not given: as what is there, else on_demand, or by --reservation"
        ),
    ] = None
    reservation: Annotated[
        tuple[str, ...], Parameter(help="Name, or projects/P/reservations/R (repeat the flag)")
    ] = ()
    max_run: Annotated[str | None, Parameter(help="Accelerators go by themselves after so long: 12h, 7d")] = (
        None
    )
    placement_policy: Annotated[
        str | None, Parameter(help="Workload policy that is there, for types that need one; else it is made")
    ] = None
    gpu_networks: Annotated[
        Literal["auto", "none"] | None,
        Parameter(help="For GPUs of several hosts: auto (GKE's own, the default), or none (TCP)"),
    ] = None
    autoprovision: Annotated[int | None, Parameter(help="Chips that GKE may add itself, with --slices 0")] = (
        None
    )

    def asked(self) -> Mapping[str, Any]:
        """See Flags."""
        rest = dict(super().asked())
        return {"reservations": rest.pop("reservation"), **rest}


@flattened("The cluster", 2)
@dataclass(frozen=True)
class Place(Flags):
    """Where it is, of which version, and as whom its nodes act."""

    zone: Annotated[str | None, Parameter(help="Where its machines are; else from the environment")] = None
    zonal: Annotated[bool, Parameter(help="Control plane in the zone alone")] = False
    channel: Annotated[Literal["rapid", "regular", "stable", "extended"], Parameter(show_default=True)] = (
        "regular"
    )
    version: Annotated[str | None, Parameter(help="Version of GKE, e.g. 1.33; else the channel's")] = None
    maintenance: Annotated[
        str | None, Parameter(help="When GKE may upgrade, each day from this time of UTC: 03:00")
    ] = None
    workload_identity: Annotated[bool, Parameter(help="Pods act as their service account")] = False
    service_account: Annotated[str | None, Parameter(help="E-mail of the account that nodes act as")] = None
    image_streaming: Annotated[
        bool, Parameter(help="Start containers before their image is there as a whole")
    ] = False

    def asked(self) -> Mapping[str, Any]:
        """See Flags."""
        from tasks.cloud.google_place import choose_zone

        rest = dict(super().asked())
        regional = not rest.pop("zonal")
        zone = choose_zone(how="give --zone").value if self.zone is None else self.zone
        return {**rest, "zone": zone, "regional": regional}


@flattened("Network", 3)
@dataclass(frozen=True)
class Network(Flags):
    """What it is reached by, and by whom."""

    network: Annotated[str | None, Parameter(help="Of the project by name, or in full; else default")] = None
    subnetwork: Annotated[str | None, Parameter(help="The same, of that network in the region")] = None
    pods_range: Annotated[
        str | None, Parameter(help="Secondary range by name, or CIDR; else as large as is needed")
    ] = None
    services_range: Annotated[str | None, Parameter(help="The same, for services")] = None
    private: Annotated[bool, Parameter(help="Nodes without public addresses")] = False
    private_endpoint: Annotated[bool, Parameter(help="Control plane without one, too")] = False
    authorized_network: Annotated[
        tuple[str, ...], Parameter(help="CIDR that reaches the control plane (repeat the flag)")
    ] = ()
    global_access: Annotated[bool, Parameter(help="A private control plane is reached from every region")] = (
        False
    )
    dns_access: Annotated[
        bool | None,
        Parameter(
            negative="--no-dns-access",
            help="Control plane reached by its DNS name; else unless --private-endpoint",
        ),
    ] = None

    def asked(self) -> Mapping[str, Any]:
        """See Flags."""
        rest = dict(super().asked())
        return {"authorized_networks": rest.pop("authorized_network"), **rest}


@flattened("Machines for controllers, and what runs there", 4)
@dataclass(frozen=True)
class Controllers(Flags):
    """The CPU machines that every cluster has, and JobSet, Kueue and the queue on them."""

    cpu_machine_type: Annotated[str | None, Parameter(help="Of the machines for controllers")] = None
    cpu_nodes: Annotated[int | None, Parameter(help="Of these, at least")] = None
    cpu_disk: Annotated[str | None, Parameter(help="Their boot disk: GB, or GB:TYPE as 200:pd-standard")] = (
        None
    )
    install: Annotated[
        bool,
        Parameter(negative="--no-install", show_default=True, help="Install JobSet, Kueue and a queue"),
    ] = True
    jobset_version: Annotated[str | None, Parameter(help="Of JobSet; else the pinned one")] = None
    kueue_version: Annotated[str | None, Parameter(help="Of Kueue; else the pinned one")] = None
    cpu_limit: Annotated[
        int | None,
        Parameter(help="Virtual CPUs that workloads may take of each kind of machine; else what there is"),
    ] = None
    memory_limit: Annotated[str | None, Parameter(help="Memory, the same: 800GiB")] = None

    def asked(self) -> Mapping[str, Any]:
        """See Flags."""
        gb, _, disk_type = (self.cpu_disk or "").partition(":")
        pool = {
            "machine_type": self.cpu_machine_type,
            "nodes": self.cpu_nodes,
            "disk_gb": gb if self.cpu_disk is not None else None,
            "disk_type": disk_type or None,
        }
        versions = {"jobset": self.jobset_version, "kueue": self.kueue_version}
        queueing: dict[str, Any] = {
            "install": self.install, "cpu_limit": self.cpu_limit, "memory_limit": self.memory_limit,
            **{name: {"version": one} for name, one in versions.items() if one is not None},
        }  # fmt: skip
        return {
            "cpu_pool": {name: one for name, one in pool.items() if one is not None},
            "queueing": queueing,
        }


@flattened("As the API has it", 5)
@dataclass(frozen=True)
class Fields(Flags):
    """What there is no flag for."""

    cluster_field: Annotated[
        tuple[str, ...], Parameter(help="PATH=VALUE of the API's Cluster (repeat the flag)")
    ] = ()
    cpu_pool_field: Annotated[tuple[str, ...], Parameter(help="The same, of the CPU machines' NodePool")] = ()
    pool_field: Annotated[tuple[str, ...], Parameter(help="The same, of accelerators' NodePools")] = ()

    def asked(self) -> Mapping[str, Any]:
        """See Flags."""
        return {f"{name}s": given for name, given in super().asked().items()}


GROUPS = (Accelerators, Place, Network, Controllers, Fields)
"""All of them."""
