"""`slicebench tpu …`: TPU VMs to keep at hand, one face over nodes and queued resources: make, look, use, give back."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say, surely, tell_gone
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.config.tpu_target import TpuVmTargetConfig
    from tasks.stages.tpus import Office, Standing

Project = Annotated[
    str | None, Parameter(help="Google Cloud project; default: from the environment or gcloud")
]
Zone = Annotated[str | None, Parameter(help="Zone; default: wherever it is")]
Name = Annotated[str, Parameter(help="Its exact name")]


def create(
    name: Name,
    /,
    *,
    type: Annotated[str, Parameter(help="Accelerator type of one slice, e.g. v6e-16")],
    zone: Annotated[
        tuple[str, ...], Parameter(negative="", help="Zones to try, in order (repeat the flag)")
    ] = (),
    slices: Annotated[int, Parameter(help="Slices of that type")] = 1,
    tier: Annotated[
        Literal["on_demand", "spot", "reserved"], Parameter(help="How it is paid for")
    ] = "on_demand",
    reservation: Annotated[str | None, Parameter(help="Full name of the reservation")] = None,
    queued: Annotated[bool, Parameter(negative="", help="Wait in the queue even for one slice")] = False,
    valid_after: Annotated[str | None, Parameter(help="Not before: a moment, or a span like 2h")] = None,
    valid_until: Annotated[
        str | None, Parameter(help="Give up in the queue: a moment, or a span like 2h")
    ] = None,
    queue_limit: Annotated[
        str | None, Parameter(help="Longest time in the queue, from --valid-after on; else 4h")
    ] = None,
    version: Annotated[str | None, Parameter(help="Runtime version; else as the type needs")] = None,
    network: str | None = None,
    subnetwork: str | None = None,
    service_account: str | None = None,
    internal: Annotated[bool, Parameter(negative="", help="No external addresses")] = False,
    user: Annotated[str, Parameter(help="Whom to log in as")] = "slicebench",
    ttl: Annotated[str, Parameter(help="The reaper deletes it after this long: 90m, 8h, 2d")] = "8h",
    wait: Annotated[bool, Parameter(help="Wait until every worker is there")] = True,
    project: Project = None,
    json: Json = False,
) -> int:
    """Make a TPU VM or queued resource, kept under a lease of its own until --ttl is over or it is deleted."""
    from flows.signals import interrupting
    from tasks.cloud.google_place import choose_zone
    from tasks.stages.tpus import create as make

    zones = zone or (choose_zone(how="give --zone").value,)
    config = _config(
        type=type, zones=zones, slices=slices, tier=tier, reservation=reservation, queued=queued or "auto",
        valid_after=valid_after, valid_until=valid_until, runtime_version=version, network=network,
        subnetwork=subnetwork, service_account=service_account, user=user,
        addresses="internal" if internal else "external",
    )  # fmt: skip
    if queue_limit is not None:
        limits = config.limits.model_copy(update={"queue_s": seconds(queue_limit, "--queue-limit")})
        config = config.model_copy(update={"limits": limits})
    _check_type(type)
    ttl_s = lifetime(ttl)
    with interrupting(say):
        standing = make(office(project), name, config, ttl_s, wait=wait)
    back = f"give it back with: slicebench tpu delete {name}"
    with surely(f"TPU {name} is made; {back}"):
        _show(standing, json)
    if not json:
        say(back)
    return ExitCode.DONE


def status(name: Name, /, *, zone: Zone = None, project: Project = None, json: Json = False) -> int:
    """Show what a name stands for: state, workers with their addresses, owner and price."""
    from tasks.stages.tpus import status as look

    _show(look(office(project), name, (zone,) if zone else ()), json)
    return ExitCode.DONE


def list_(*, zone: Zone = None, project: Project = None, json: Json = False) -> int:
    """List every TPU VM and queued resource of the project, in all zones, whoever made them."""
    from tasks.stages.tpus import listing

    desk = office(project)
    found = listing(desk, zone)
    if json:
        print_json({"project": desk.tpu.project, "tpus": [asdict(one) for one in found]})
        return ExitCode.DONE
    for one in found:
        print(_row(one))
    if not found:
        say(f"there is no TPU in {zone or 'any zone'} of {desk.tpu.project}")
    return ExitCode.DONE


def delete(name: Name, /, *, project: Project = None, json: Json = False) -> int:
    """Delete what `tpu create` made under this name, and verify that it is gone. What others made is left alone."""
    from tasks.stages.tpus import delete as give_back

    return tell_gone(name, give_back(office(project), name), json)


def office(project: str | None) -> Office:
    """Returns where TPUs are asked for: the project, the ledger, the inventories."""
    from tasks.cloud.google_place import choose_project
    from tasks.cloud.tpu import CloudTpu
    from tasks.config.home import scratch_folder
    from tasks.leases.opening import the_inventories, the_ledger
    from tasks.stages.tpus import Office

    ledger = the_ledger()
    inventories = the_inventories(ledger)
    chosen = choose_project(project, how="give --project").value
    return Office(
        CloudTpu(chosen),
        ledger,
        inventories,
        scratch_folder(),
        say,
    )


def _config(**fields: Any) -> TpuVmTargetConfig:
    """Returns the flags as a target file would have them. Raises BadInput in the flags' own spelling."""
    from tasks.config.as_flags import Flags
    from tasks.config.findings import checked
    from tasks.config.tpu_target import TpuVmTargetConfig

    spelling = Flags({"zones": "--zone", "runtime_version": "--version"}, TpuVmTargetConfig.model_fields)
    return checked(TpuVmTargetConfig, {"kind": "tpu_vm", **fields}, spelling)


def _check_type(name: str) -> None:
    from tasks.cloud.tpu_types import tpu_type

    tpu_type(name)


def seconds(span: str, flag: str) -> float:
    """Returns the seconds of a span. Raises BadInput that names the flag it was given with."""
    from tasks.config import duration

    try:
        return duration.seconds(span)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None


def lifetime(ttl: str) -> float:
    """Returns the seconds of --ttl. Raises BadInput for what is none, or over at once."""
    ttl_s = seconds(ttl, "--ttl")
    if not ttl_s:
        raise BadInput(f"--ttl {ttl} would be over at once", fix="give it some time, such as --ttl 8h")
    return ttl_s


def _show(standing: Standing, json: bool) -> None:
    if json:
        print_json(asdict(standing))
        return
    print(_row(standing))
    for index, node in enumerate(standing.nodes):
        health = f", {node.health}" if node.health not in ("", "HEALTHY") else ""
        print(f"  slice {index}: {node.name} {node.state}{health}")
        for worker, address in enumerate(node.addresses):
            external = f" ({address.external})" if address.external else ""
            print(f"    worker {worker}: {address.internal}{external}")


def _row(one: Standing) -> str:
    price = f"${one.price_per_hour:.2f} an hour" if one.price_per_hour else ""
    expires = ""
    if one.expires_at is not None:
        left = one.expires_at - time.time()
        expires = f"until {time.strftime('%Y-%m-%d %H:%M', time.localtime(one.expires_at))}"
        expires += " (overdue)" if left < 0 else ""
    whose = f"lease {one.lease_id} of {one.owner}" if one.lease_id else "not made by slicebench"
    parts = (one.name, one.zone, one.type, f"{one.kind} {one.state}", whose, expires, price, one.note)
    return "  ".join(part for part in parts if part)
