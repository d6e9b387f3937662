"""`slicebench cluster …`: clusters of GKE to keep: make, resize, look, give back. Never through gcloud or kubectl."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode, Problem

if TYPE_CHECKING:
    from tasks.config.cluster import ClusterConfig
    from tasks.stages.clusters import Agree, Office, Standing
    from tasks.targets.cluster_plan import ClusterPlan

Project = Annotated[str | None, Parameter(help="Google Cloud project; else from the environment or gcloud")]
Location = Annotated[str, Parameter(help="Region or zone, where several have a cluster of the name")]
Name = Annotated[str, Parameter(help="Its exact name")]
Force = Annotated[
    bool, Parameter(negative="", show_default=False, help="Take away what works without asking")
]
DryRun = Annotated[bool, Parameter(negative="", show_default=False, help="Only show what would be done")]
_Many = Parameter(negative="")


def create(
    name: Name,
    /,
    *,
    type: Annotated[
        str | None, Parameter(help="Accelerator type of one slice, e.g. v5litepod-16; none: CPUs")
    ] = None,
    zone: Annotated[str | None, Parameter(help="Where its machines are; else from the environment")] = None,
    slices: Annotated[int, Parameter(help="Slices of that type; 0: give them back, keep the rest")] = 1,
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
        Literal["auto", "none"], Parameter(help="For GPUs of several hosts: GKE's own, or TCP")
    ] = "auto",
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
    from flows.cli.tpu import seconds
    from flows.signals import interrupting
    from tasks.cloud.google_place import choose_zone
    from tasks.stages.clusters import create as make
    from tasks.stages.clusters import preview

    disk_gb, _, disk_type = (cpu_disk or "").partition(":")
    cpu = {
        "machine_type": cpu_machine_type,
        "nodes": cpu_nodes,
        "disk_gb": disk_gb or None,
        "disk_type": disk_type or None,
    }
    config = config_of(
        type=type, zone=zone or choose_zone(None).value, slices=slices, nodes=nodes, topology=topology,
        capacity=capacity, reservations=reservation, max_run=max_run, placement_policy=placement_policy,
        regional=not zonal, channel=channel, version=version, maintenance=maintenance,
        network=network, subnetwork=subnetwork, pods_range=pods_range, services_range=services_range,
        private=private, private_endpoint=private_endpoint, global_access=global_access, dns_access=dns_access,
        authorized_networks=authorized_network, workload_identity=workload_identity,
        service_account=service_account, image_streaming=image_streaming, gpu_networks=gpu_networks,
        autoprovision=autoprovision,
        cpu_pool={field: value for field, value in cpu.items() if value is not None},
        queueing={
            "install": install, "cpu_limit": cpu_limit, "memory_limit": memory_limit,
            **({"jobset": {"version": jobset_version}} if jobset_version else {}),
            **({"kueue": {"version": kueue_version}} if kueue_version else {}),
        },
        cluster_fields=_fields(cluster_field, "--cluster-field"),
        cpu_pool_fields=_fields(cpu_pool_field, "--cpu-pool-field"),
        pool_fields=_fields(pool_field, "--pool-field"),
    )  # fmt: skip
    _warn(config)
    ttl_s = seconds(ttl, "--ttl") if ttl else None
    desk = office(project)
    if dry_run:
        return _show_plan(preview(desk, name, config), json)
    with interrupting(say):
        standing = make(desk, name, config, ttl_s=ttl_s, agree=agreeing(force), partly=partly)
    _show(standing, json)
    if not json:
        say(f"give it back with: slicebench cluster delete {name}")
    return ExitCode.DONE


def resize(
    name: Name,
    /,
    *,
    slices: Annotated[int | None, Parameter(help="How many slices there are to be")] = None,
    nodes: Annotated[int | None, Parameter(help="How many GPU or CPU machines there are to be")] = None,
    force: Force = False,
    dry_run: DryRun = False,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Give a cluster that `create` made another number of slices or machines; idle ones go first."""
    show_calls(verbose)
    from flows.signals import interrupting
    from tasks.stages.clusters import preview, resized
    from tasks.stages.clusters import resize as change

    size = slices if slices is not None else nodes
    if size is None or (slices is not None and nodes is not None):
        raise BadInput(
            "give the size that the cluster is to have: --slices N, or --nodes N for GPUs and CPUs"
        )
    desk = office(project)
    if dry_run:
        return _show_plan(preview(desk, name, resized(desk, name, size)), json)
    with interrupting(say):
        standing = change(desk, name, size, agree=agreeing(force))
    _show(standing, json)
    return ExitCode.DONE


def list_(*, project: Project = None, json: Json = False, verbose: Verbose = False) -> int:
    """List every cluster of the project, in all locations, whoever made it."""
    show_calls(verbose)
    from tasks.stages.clusters import listing

    desk = office(project)
    found = listing(desk)
    if json:
        print_json({"project": desk.container.project, "clusters": [asdict(one) for one in found]})
        return ExitCode.DONE
    for one in found:
        print(_row(one))
    if not found:
        say(f"there is no cluster in any location of {desk.container.project}")
    return ExitCode.DONE


def describe(
    name: Name,
    /,
    *,
    location: Location = "",
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Say how a cluster stands: of each slice, machines expected, present, healthy and used; whose it is."""
    show_calls(verbose)
    from tasks.stages.clusters import describe as look

    _show(look(office(project), name, location), json)
    return ExitCode.DONE


def kubeconfig(
    name: Name,
    /,
    *,
    to: Annotated[
        Path | None, Parameter(help="Write it there, for you alone to read; else to stdout")
    ] = None,
    token: Annotated[
        bool, Parameter(negative="", help="With a token for an hour in it, in place of gcloud's plugin")
    ] = False,
    dns: Annotated[bool, Parameter(negative="", help="Reach the control plane by its DNS name")] = False,
    location: Location = "",
    project: Project = None,
    verbose: Verbose = False,
) -> int:
    """Print a kubeconfig for one cluster, for tools of your own. Your own kubeconfig is never touched."""
    show_calls(verbose)
    from tasks.stages.cluster_kubeconfig import access_token, write_kubeconfig
    from tasks.stages.cluster_kubeconfig import kubeconfig as config
    from tasks.stages.clusters import existing

    cluster = existing(office(project), name, location)
    content = config(cluster, access_token() if token else None, dns=dns)
    if to is None:
        print(content, end="")
    else:
        write_kubeconfig(content, to)
        say(f"use it with: KUBECONFIG={to} kubectl get nodes")
    return ExitCode.DONE


def delete(name: Name, /, *, project: Project = None, json: Json = False, verbose: Verbose = False) -> int:
    """Give back what `cluster create` made, half made or not, and look that it is gone. What was there before stays."""
    show_calls(verbose)
    from tasks.stages.clusters import delete as give_back

    gone = give_back(office(project), name)
    if json:
        print_json({"name": name, "deleted": gone})
    else:
        say(f"{name} is gone: {counted(gone, 'thing')} given back, nothing is left")
    return ExitCode.DONE


def office(project: str | None) -> Office:
    """Returns where clusters are asked for: the project, the ledger, the inventories."""
    from tasks.cloud.container import Container
    from tasks.cloud.google_place import choose_project
    from tasks.config.home import ledger_uri, scratch_folder
    from tasks.leases.inventory import open_inventories
    from tasks.leases.opening import open_ledger
    from tasks.stages.cluster_inside import Inside
    from tasks.stages.clusters import Office

    ledger = open_ledger(ledger_uri())
    inventories = open_inventories(ledger, scratch_folder())
    return Office(Container(choose_project(project).value), ledger, inventories, say, inside=Inside(say))


def config_of(**fields: Any) -> ClusterConfig:
    """Returns the flags as a config. Raises BadInput in the words of the model."""
    import pydantic

    from tasks.config.cluster import ClusterConfig

    given = {field: value for field, value in fields.items() if value is not None}
    try:
        return ClusterConfig.model_validate(given)
    except pydantic.ValidationError as error:
        problems = []
        for one in error.errors():
            what = one["ctx"]["error"] if one["type"] == "value_error" else one["msg"]
            where = ".".join(map(str, one["loc"]))
            problems.append(Problem("error", None, f"{where}: {what}" if where else f"{what}"))
        raise BadInput(problems) from None


def agreeing(force: bool) -> Agree:
    """Returns what shows a plan and asks, where something that works is taken away; `force`: it does not ask."""

    def agree(planned: ClusterPlan) -> bool:
        say(str(planned))
        if force or not planned.disturbs:
            return True
        if not sys.stdin.isatty():
            raise BadInput(
                "something that works would be taken away, and nobody can be asked", fix="give --force"
            )
        say("go on? [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return agree


def _fields(given: tuple[str, ...], flag: str) -> Mapping[str, str]:
    fields = {}
    for one in given:
        path, separator, value = one.partition("=")
        if not separator or not path:
            raise BadInput(
                f"{flag} {one}: write PATH=VALUE", fix="e.g. network_config.enable_l4_ilb_subsetting=true"
            )
        fields[path] = value
    return fields


def _warn(config: ClusterConfig) -> None:
    for problem in config.warnings():
        say(str(problem))


def _show_plan(planned: ClusterPlan, json: bool) -> int:
    if json:
        print_json({**asdict(planned), "disturbs": planned.disturbs})
    else:
        print(planned)
    return ExitCode.DONE


def _show(standing: Standing, json: bool) -> None:
    if json:
        print_json(asdict(standing))
        return
    print(_row(standing))
    for one in standing.slices:
        shape = f"{one.machine_type}{f' {one.topology}' if one.topology else ''}, {one.capacity}"
        counts = f"{one.expected} expected, {_known(one.present)} present, {_known(one.healthy)} healthy"
        used = f", {one.used} used" if one.used is not None else ""
        why = f": {one.why}" if one.why else ""
        print(f"  {one.pool}  {shape}  {one.state}  {counts}{used}{why}")


def _known(count: int | None) -> str:
    return "?" if count is None else str(count)


def _row(one: Standing) -> str:
    price = f"${one.price_per_hour:.2f} an hour" if one.price_per_hour else ""
    owner = f" of {one.owner}" if one.owner else ""
    whose = f"lease {one.lease_id}{owner}" if one.lease_id else "not made by slicebench"
    used = f"used by {', '.join(one.holders)}" if one.holders else ""
    pools = counted(len(one.slices), "node pool")
    parts = (one.name, one.location, one.state, one.version, pools, whose, used, price, one.note)
    return "  ".join(part for part in parts if part)
