"""`slicebench workload …`: JobSets of any cluster, whoever made them: list, explain, read, delete, bundle."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.said import Json, Over, print_json, say
from flows.cli.verbose import Verbose, show_calls
from flows.cli.workload_place import NOWHERE, Where, office
from flows.cli.workload_said import cause_of, lines_of, print_lines, table
from flows.cli.wrong_flags import checked_range
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.cloud.kubernetes_kinds import Object
    from tasks.stages.workload_desk import Desk

_LEAST_S = 3.0
"""For so long it is looked at least whether a JobSet is gone whose pods are: others may hold it by finalizers."""

Name = Annotated[str, Parameter(help="The JobSet's name")]


def create(*words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]) -> int:
    """Run any command on the slices of a cluster, as one JobSet; see slicebench workload create --help."""
    from flows.cli.workload_create import create as make

    return make(words)


def list_(
    *,
    where: Where = NOWHERE,
    status: Annotated[
        str,
        Parameter(help="EVERYTHING, FINISHED, RUNNING, QUEUED, FAILED, SUCCESSFUL, or one state by its name"),
    ] = "EVERYTHING",
    filter_by_job: Annotated[str, Parameter(help="Regular expression to find in names")] = "",
    all_namespaces: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Workloads in all namespaces, those of all teams"),
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """List the workloads of a namespace: what they need, what runs, what state they are in and why."""
    show_calls(verbose)
    from tasks.stages.workload_desk import refuse_missing_namespace
    from tasks.stages.workloads import listing

    if all_namespaces and where.namespace is not None:
        raise BadInput("--all-namespaces and --namespace exclude each other", fix="leave one out")
    desk = office(where)
    found = listing(desk, status, filter_by_job, everywhere=all_namespaces)
    if json:
        told = [{**asdict(row), "position": str(row.position or "") or None} for row in found]
        space = None if all_namespaces else desk.namespace
        print_json({"cluster": desk.kube.access.name, "namespace": space, "workloads": told})
        return ExitCode.DONE
    print("\n".join(table(found, everywhere=all_namespaces)) if found else "", end="\n" if found else "")
    if not found:
        if not all_namespaces:
            refuse_missing_namespace(desk)
        what = "workload" if status.upper() == "EVERYTHING" and not filter_by_job else "such workload"
        space = "any namespace" if all_namespaces else f"namespace {desk.namespace}"
        say(f"there is no {what} in {space} of {desk.kube.access.name}")
    return ExitCode.DONE


def explain(name: Name, /, *, where: Where = NOWHERE, json: Json = False, verbose: Verbose = False) -> int:
    """Say what a workload is doing and what holds it up, with the evidence and the next command."""
    show_calls(verbose)
    from tasks.stages.workload_explained import explanation

    told = explanation(office(where), name)
    if json:
        found = asdict(told.found)
        print_json(
            {**asdict(told), "found": {**found, "attempt": told.found.attempt, "cause": cause_of(told)}}
        )
        return ExitCode.DONE
    print_lines(lines_of(told))
    return ExitCode.DONE


def logs(
    name: Name,
    /,
    *,
    where: Where = NOWHERE,
    worker: Annotated[int | None, Parameter(help="Only this worker, counted over all slices from 0")] = None,
    pod: Annotated[str | None, Parameter(help="Only this pod, by its exact name")] = None,
    container: Annotated[str | None, Parameter(help="Only this container; default: all")] = None,
    tail: Annotated[int | None, Parameter(help="Only this many last lines of each")] = None,
    follow: Annotated[
        bool, Parameter(negative="", help="Keep following until the workload has ended")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Print what the pods of a workload wrote, each line with its worker's number, or with its pod."""
    if follow and json:
        raise BadInput("--json prints one object, which --follow cannot: it has no end", fix="leave one out")
    if follow and (worker is not None or tail is not None):
        raise BadInput(
            "--follow shows all workers from their first line", fix="leave --worker and --tail out"
        )
    if tail is not None:
        checked_range("--tail", tail, 1)
    show_calls(verbose)
    desk = office(where)
    if follow:
        return _follow(desk, name, pod, container)
    from tasks.stages.workload_logs import logs as read

    found = list(read(desk, name, worker=worker, pod=pod, container=container, tail=tail))
    if json:
        print_json({"workload": name, "logs": [asdict(one) for one in found]})
        return ExitCode.DONE
    for one in found:
        who = f"[{one.worker}{f' {one.container}' if one.container else ''}]"
        print_lines(f"{who} {line}" for line in one.text.splitlines())
    if not found:
        say(f"workload {name} has no pods yet, or none any more: slicebench workload explain {name}")
    return ExitCode.DONE


def delete(
    *names: Annotated[str, Parameter(help="Names of JobSets")],
    where: Where = NOWHERE,
    filter_by_job: Annotated[
        str | None, Parameter(help="All whose names contain a match for this regular expression")
    ] = None,
    force: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Do not ask; also delete those of unfinished runs"),
    ] = False,
    wait: Annotated[str, Parameter(help="How long to wait for pods to end; 0s: not at all")] = "5m",
    missing_ok: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Do not fail where there is no workload of a name"),
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete workloads, and wait until their pods are gone: until then their hardware is not free."""
    from flows.cli.tpu import seconds

    if bool(names) == (filter_by_job is not None):
        raise BadInput("say which workloads: names, or --filter-by-job", fix="see slicebench workload list")
    limit_s = seconds(wait, "--wait")
    show_calls(verbose)
    from tasks.leases.opening import the_ledger
    from tasks.leases.patience import Patience
    from tasks.stages.workload_gone import delete as ask_to_go
    from tasks.stages.workload_gone import wait_gone
    from tasks.stages.workload_lease import close, give_back, left_behind
    from tasks.stages.workloads import chosen
    from tasks.targets.kube_objects import name as name_of

    desk, ledger = office(where, patient=True), the_ledger()
    left = {one: lease for one in names if (lease := left_behind(ledger, desk.kube, desk.namespace, one))}
    found = chosen(desk, [one for one in names if one not in left], filter_by_job, missing_ok=missing_ok)
    if not force:
        _refuse_leased(found)
        if filter_by_job is not None and found and not _agreed([name_of(one) for one in found]):
            return ExitCode.INTERRUPTED
    for one in found:
        ask_to_go(desk, one)
    if limit_s:
        until = time.monotonic() + limit_s
        wait_gone(desk, found, limit_s, say)
        for one in found:
            left_s = max(_LEAST_S, until - time.monotonic())
            close(ledger, one, Patience(tell=say).within(left_s))
    for lease in left.values():
        give_back(ledger, lease.name)
    gone = [*map(name_of, found), *left]
    if json:
        print_json({"deleted": gone})
    else:
        say(f"deleted: {', '.join(gone)}" if gone else "there was nothing to delete")
    return ExitCode.DONE


def inspect(
    name: Name,
    /,
    *,
    where: Where = NOWHERE,
    to: Annotated[
        Path | None, Parameter(help="File to write; default: NAME-inspect-TIME.tar.gz here")
    ] = None,
    force: Over = False,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Write all that the cluster says of a workload into one archive, without values of secret variables."""
    show_calls(verbose)
    from tasks.stages.workload_bundle import write_bundle

    file = to or Path(f"{name}-inspect-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    missing = write_bundle(office(where), name, file, force=force)
    if json:
        print_json({"workload": name, "file": str(file), "missing": list(missing)})
        return ExitCode.DONE
    for what in missing:
        say(f"not in it: {what}")
    print(file)
    return ExitCode.DONE


def _refuse_leased(found: Sequence[Object]) -> None:
    """Raises BadInput where some of them are somebody's who gives them back himself."""
    from tasks.stages.workloads import whose
    from tasks.targets.kube_objects import name as name_of

    leased = [f"{name_of(one)} ({whose(one)})" for one in found if whose(one)]
    if leased:
        raise BadInput(
            f"these belong to runs of slicebench, which delete them themselves: {', '.join(leased)}",
            fix="slicebench reap --lease LEASE, or --force",
        )


def _follow(desk: Desk, name: str, pod: str | None, container: str | None) -> int:
    from tasks.cloud.kubernetes_told import Source
    from tasks.stages.workload_desk import the_jobset
    from tasks.stages.workload_follow import heard
    from tasks.targets.kube_objects import uid_of

    def line(source: Source, text: str) -> None:
        if pod in (None, source.pod) and container in (None, source.container):
            print_lines([f"[{source.pod.removeprefix(f'{name}-')}] {text}"])

    uid = uid_of(the_jobset(desk, name))
    for _ in heard(desk.kube.access, desk.namespace, name, uid, line=line, say=say):
        pass
    return ExitCode.DONE


def _agreed(names: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise BadInput(f"this deletes {', '.join(names)}", fix="say --force, or name them")
    say(f"this deletes {', '.join(names)}")
    return input("delete them? (y/N) ").strip().lower() in ("y", "yes")
