"""`slicebench cluster …`: clusters of GKE that are kept: resize, look, give back. Never through gcloud or kubectl."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.said import Json, Over, print_json, say, tell_gone
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.stages.cluster_standing import Office, Standing
    from tasks.stages.clusters import Agree
    from tasks.targets.cluster_plan import ClusterPlan

Project = Annotated[
    str | None, Parameter(help="Google Cloud project; default: from the environment or gcloud")
]
Location = Annotated[
    str, Parameter(("--location", "--zone"), help="Region or zone, if several have a cluster of this name")
]
Name = Annotated[str, Parameter(help="Its exact name")]
Force = Annotated[
    bool, Parameter(negative="", show_default=False, help="Delete what is still in use without asking")
]
DryRun = Annotated[bool, Parameter(negative="", show_default=False, help="Only show what would be done")]


def resize(
    name: Name,
    /,
    *,
    slices: Annotated[int | None, Parameter(help="How many slices it is to have")] = None,
    nodes: Annotated[int | None, Parameter(help="How many GPU or CPU machines it is to have")] = None,
    force: Force = False,
    dry_run: DryRun = False,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Change the number of slices or machines of a cluster that `create` made; idle ones are removed first."""
    show_calls(verbose)
    from flows.cli.wrong_flags import checked_range
    from flows.signals import interrupting
    from tasks.stages.cluster_whose import refuse_to_change
    from tasks.stages.clusters import Unit, preview, resized
    from tasks.stages.clusters import resize as change

    size = slices if slices is not None else nodes
    if size is None or (slices is not None and nodes is not None):
        raise BadInput(
            "give the size that the cluster is to have: --slices N, or --nodes N for GPUs and CPUs"
        )
    unit: Unit = "nodes" if slices is None else "slices"
    checked_range(f"--{unit}", size, 0)
    desk = office(project)
    refuse_to_change(desk, name)
    if dry_run:
        return show_plan(preview(desk, name, resized(desk, name, size, unit)), json)
    with interrupting(say):
        standing = change(desk, name, size, unit, agree=agreeing(force))
    show(standing, json)
    return ExitCode.DONE


def list_(*, project: Project = None, json: Json = False, verbose: Verbose = False) -> int:
    """List every cluster of the project, in all locations, whoever made it."""
    show_calls(verbose)
    from tasks.stages.cluster_standing import listing

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
    """Show the state of a cluster: for each slice, machines expected, present, healthy and in use; and who owns it."""
    show_calls(verbose)
    from tasks.stages.cluster_standing import describe as look

    show(look(office(project), name, location), json)
    return ExitCode.DONE


def kubeconfig(
    name: Name,
    /,
    *,
    to: Annotated[
        Path | None, Parameter(help="File to write, readable by you alone; default: stdout")
    ] = None,
    force: Over = False,
    token: Annotated[
        bool, Parameter(negative="", help="Put a token for one hour in it, instead of gcloud's plugin")
    ] = False,
    dns: Annotated[bool, Parameter(negative="", help="Reach the control plane by its DNS name")] = False,
    location: Location = "",
    project: Project = None,
    verbose: Verbose = False,
) -> int:
    """Print a kubeconfig for one cluster, for tools of your own. Your own kubeconfig is never touched."""
    show_calls(verbose)
    from tasks.stages.cluster_kubeconfig import access_token, refuse_to_write, write_kubeconfig
    from tasks.stages.cluster_kubeconfig import kubeconfig as config
    from tasks.stages.cluster_standing import existing

    if to is not None:
        refuse_to_write(to, force=force)
    cluster = existing(office(project), name, location)
    content = config(cluster, access_token() if token else None, dns=dns)
    if to is None:
        print(content, end="")
    else:
        write_kubeconfig(content, to, force=force)
        say(f"use it with: KUBECONFIG={to} kubectl get nodes")
    return ExitCode.DONE


def delete(
    name: Name,
    /,
    *,
    force: Force = False,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete what `cluster create` made, even half made, and verify that it is gone. What was there before stays."""
    show_calls(verbose)
    from tasks.stages.cluster_whose import environment_of
    from tasks.stages.clusters import Declined
    from tasks.stages.clusters import delete as give_back

    desk = office(project)
    if called := environment_of(desk, name):
        say(
            f"{name} is the cluster of environment {called}: `slicebench env down FILE` gives back all of it, and "
            "while that is not done, `env up` makes the cluster anew"
        )
        if not _asked(force, f"the cluster of environment {called} would be deleted alone"):
            raise Declined(f"cluster {name} stays: nobody agreed")
    return tell_gone(name, give_back(desk, name, agree=agreeing_to_end(name, force)), json)


def office(project: str | None) -> Office:
    """Returns where clusters are asked for: the project, the ledger, the inventories."""
    from tasks.cloud.container import Container
    from tasks.cloud.google_place import choose_project
    from tasks.leases.opening import the_inventories, the_ledger
    from tasks.stages.cluster_inside import Inside
    from tasks.stages.cluster_standing import Office

    ledger = the_ledger()
    inventories = the_inventories(ledger)
    chosen = choose_project(project, how="give --project").value
    return Office(
        Container(chosen),
        ledger,
        inventories,
        say,
        inside=Inside(say),
    )


def agreeing(force: bool) -> Agree:
    """Returns what shows a plan and asks, where something that works is taken away; `force`: it does not ask."""

    def agree(planned: ClusterPlan) -> bool:
        say(str(planned))
        return _asked(force or not planned.disturbs, "something in use would be deleted")

    return agree


def agreeing_to_end(name: str, force: bool) -> Callable[[Sequence[str]], bool]:
    """Returns what shows what goes on in a cluster that is to go, and asks; `force`: it does not ask."""

    def agree(going_on: Sequence[str]) -> bool:
        say(
            "\n".join(
                (
                    f"{name} is in use, and what goes on in it would end with it:",
                    *(f"  {one}" for one in going_on),
                )
            )
        )
        return _asked(force, f"{counted(len(going_on), 'workload')} would be ended")

    return agree


def agreeing_to_lose(force: bool) -> Callable[[Sequence[str]], bool]:
    """Returns what shows which node pools go while they are in use, and asks; `force`: it does not ask."""

    def agree(in_use: Sequence[str]) -> bool:
        say(f"{' and '.join(in_use)} would go, and what runs there, whosever it is, would end with it")
        return _asked(force, f"{counted(len(in_use), 'node pool')} in use would go")

    return agree


def _asked(anyway: bool, what: str) -> bool:
    if anyway:
        return True
    if not sys.stdin.isatty():
        raise BadInput(f"{what}, and there is no terminal to ask on", fix="give --force")
    say("go on? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_plan(planned: ClusterPlan, json: bool) -> int:
    """Shows what would be done."""
    if json:
        print_json({**asdict(planned), "disturbs": planned.disturbs})
    else:
        print(planned)
    return ExitCode.DONE


def show(standing: Standing, json: bool) -> None:
    """Shows how a cluster stands."""
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
