"""`slicebench cluster create`: a cluster of GKE by flags, each of them a field of its model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from flows.cli import cluster
from flows.cli.cluster import DryRun, Force, Name, Project, agreeing, show, show_plan
from flows.cli.said import Json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.config.cluster import ClusterConfig


def create(
    name: Name,
    /,
    *,
    type: Annotated[
        str | None, Parameter(help="Accelerator type of one slice, e.g. v5litepod-16; none: CPUs")
    ] = None,
    zone: Annotated[str | None, Parameter(help="Where its machines are; else from the environment")] = None,
    slices: Annotated[
        int | None, Parameter(help="Slices of that type, else 1; 0: give them back, keep the rest")
    ] = None,
    nodes: Annotated[int | None, Parameter(help="Machines of a GPU or CPU type")] = None,
    topology: Annotated[str | None, Parameter(help="Which shape, where a type has several")] = None,
    capacity: Annotated[
        Literal["on_demand", "spot", "reservation", "flex_start"] | None,
        Parameter(help="How accelerators are paid for; not given: on_demand, or by --reservation"),
    ] = None,
    reservation: Annotated[
        tuple[str, ...], Parameter(negative="", help="Name, or projects/P/reservations/R (repeat the flag)")
    ] = (),
    max_run: Annotated[
        str | None, Parameter(help="Accelerators go by themselves after so long: 12h, 7d")
    ] = None,
    placement_policy: Annotated[
        str | None, Parameter(help="Workload policy that is there, for types that need one; else it is made")
    ] = None,
    zonal: Annotated[bool, Parameter(negative="", help="Control plane in the zone alone")] = False,
    channel: Literal["rapid", "regular", "stable", "extended"] = "regular",
    version: Annotated[str | None, Parameter(help="Version of GKE, e.g. 1.33; else the channel's")] = None,
    maintenance: Annotated[
        str | None, Parameter(help="When GKE may upgrade, each day from this time of UTC: 03:00")
    ] = None,
    network: str | None = None,
    subnetwork: str | None = None,
    pods_range: Annotated[
        str | None, Parameter(help="Secondary range by name, or CIDR; else as large as is needed")
    ] = None,
    services_range: Annotated[str | None, Parameter(help="The same, for services")] = None,
    private: Annotated[bool, Parameter(negative="", help="Nodes without public addresses")] = False,
    private_endpoint: Annotated[bool, Parameter(negative="", help="Control plane without one, too")] = False,
    authorized_network: Annotated[
        tuple[str, ...], Parameter(negative="", help="CIDR that reaches the control plane (repeat the flag)")
    ] = (),
    global_access: Annotated[
        bool, Parameter(negative="", help="A private control plane is reached from every region")
    ] = False,
    dns_access: Annotated[
        bool | None, Parameter(help="Control plane reached by its DNS name; else unless --private-endpoint")
    ] = None,
    workload_identity: Annotated[
        bool, Parameter(negative="", help="Pods act as their service account")
    ] = False,
    service_account: Annotated[str | None, Parameter(help="E-mail of the account that nodes act as")] = None,
    image_streaming: Annotated[
        bool, Parameter(negative="", help="Start containers before their image is there as a whole")
    ] = False,
    gpu_networks: Annotated[
        Literal["auto", "none"] | None,
        Parameter(help="For GPUs of several hosts: auto (GKE's own, the default), or none (TCP)"),
    ] = None,
    autoprovision: Annotated[
        int | None, Parameter(help="Chips that GKE may add itself, with --slices 0")
    ] = None,
    cpu_machine_type: Annotated[str | None, Parameter(help="Of the machines for controllers")] = None,
    cpu_nodes: Annotated[int | None, Parameter(help="Of these, at least")] = None,
    cpu_disk: Annotated[
        str | None, Parameter(help="Their boot disk: GB, or GB:TYPE as 200:pd-standard")
    ] = None,
    install: Annotated[bool, Parameter(help="Put JobSet, Kueue and a queue into it")] = True,
    jobset_version: Annotated[str | None, Parameter(help="Of JobSet; else the pinned one")] = None,
    kueue_version: Annotated[str | None, Parameter(help="Of Kueue; else the pinned one")] = None,
    cpu_limit: Annotated[
        int | None,
        Parameter(help="Virtual CPUs that workloads may take of each kind of machine; else what there is"),
    ] = None,
    memory_limit: Annotated[str | None, Parameter(help="Memory, the same: 800GiB")] = None,
    cluster_field: Annotated[
        tuple[str, ...], Parameter(negative="", help="PATH=VALUE of the API's Cluster (repeat the flag)")
    ] = (),
    cpu_pool_field: Annotated[
        tuple[str, ...], Parameter(negative="", help="The same, of the CPU machines' NodePool")
    ] = (),
    pool_field: Annotated[
        tuple[str, ...], Parameter(negative="", help="The same, of accelerators' NodePools")
    ] = (),
    ttl: Annotated[
        str | None, Parameter(help="Given back by the reaper after so long: 8h, 2d; else kept")
    ] = None,
    partly: Annotated[bool, Parameter(negative="", help="Keep what came when not all slices did")] = False,
    force: Force = False,
    dry_run: DryRun = False,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Make a cluster, or finish, repair and resize the one of this name. What works is taken away only if you agree."""
    show_calls(verbose)
    from flows.cli.cluster_flags import config_of
    from flows.cli.tpu import lifetime
    from flows.signals import interrupting
    from tasks.cloud.google_place import choose_zone
    from tasks.stages.clusters import create as make
    from tasks.stages.clusters import preview

    disk_gb, _, disk_type = (cpu_disk or "").partition(":")
    cpu = {
        "machine_type": cpu_machine_type,
        "nodes": cpu_nodes,
        "disk_gb": disk_gb if cpu_disk is not None else None,
        "disk_type": disk_type or None,
    }
    config = config_of(
        type=type, zone=choose_zone(None).value if zone is None else zone, slices=slices, nodes=nodes,
        topology=topology, capacity=capacity, reservations=reservation, max_run=max_run,
        placement_policy=placement_policy, regional=not zonal, channel=channel, version=version,
        maintenance=maintenance,
        network=network, subnetwork=subnetwork, pods_range=pods_range, services_range=services_range,
        private=private, private_endpoint=private_endpoint, global_access=global_access, dns_access=dns_access,
        authorized_networks=authorized_network, workload_identity=workload_identity,
        service_account=service_account, image_streaming=image_streaming, gpu_networks=gpu_networks,
        autoprovision=autoprovision,
        cpu_pool={field: value for field, value in cpu.items() if value is not None},
        queueing={
            "install": install, "cpu_limit": cpu_limit, "memory_limit": memory_limit,
            **({"jobset": {"version": jobset_version}} if jobset_version is not None else {}),
            **({"kueue": {"version": kueue_version}} if kueue_version is not None else {}),
        },
        cluster_fields=cluster_field, cpu_pool_fields=cpu_pool_field, pool_fields=pool_field,
    )  # fmt: skip
    _warn(config)
    ttl_s = lifetime(ttl) if ttl is not None else None
    desk = cluster.office(project)
    if dry_run:
        return show_plan(preview(desk, name, config), json)
    with interrupting(say):
        standing = make(desk, name, config, ttl_s=ttl_s, agree=agreeing(force), partly=partly)
    show(standing, json)
    if not json:
        say(f"give it back with: slicebench cluster delete {name}")
    return ExitCode.DONE


def _warn(config: ClusterConfig) -> None:
    for problem in config.warnings():
        say(str(problem))
