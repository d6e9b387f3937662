"""`slicebench workload …`: JobSets of any cluster, whoever made them: list, explain, read, delete, bundle."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from flows.cli.wrong_flags import checked_range
from runtime.contract.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.explain.scene import Line, Trouble
    from tasks.stages.workloads import Desk, Explained
    from tasks.targets.kube_rows import Row

Name = Annotated[str, Parameter(help="The JobSet's name")]


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Which cluster: of a context, of GKE by name, or of a target file."""

    context: Annotated[str | None, Parameter(help="A context of your kubeconfig; never the current one")] = (
        None
    )
    kubeconfig: Annotated[str | None, Parameter(help="That file; else $KUBECONFIG, else ~/.kube/config")] = (
        None
    )
    cluster: Annotated[str | None, Parameter(help="A cluster of GKE, by its name")] = None
    location: Annotated[str | None, Parameter(help="Its zone or region, where several have the name")] = None
    project: Annotated[str | None, Parameter(help="Its project; else from the environment or gcloud")] = None
    target: Annotated[str | None, Parameter(help="The cluster and namespace of a target of kind gke")] = None
    namespace: Annotated[str | None, Parameter(help="Else the target's or the context's, else default")] = (
        None
    )


_NOWHERE = Where()


def list_(
    *,
    where: Where = _NOWHERE,
    status: Annotated[
        str,
        Parameter(help="EVERYTHING, FINISHED, RUNNING, QUEUED, FAILED, SUCCESSFUL, or one state by its name"),
    ] = "EVERYTHING",
    filter_by_job: Annotated[str, Parameter(help="Regular expression that is looked for in names")] = "",
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """List the workloads of a namespace: what they need, what runs, what state they are in and why."""
    show_calls(verbose)
    from tasks.stages.workloads import listing

    desk = office(where)
    found = listing(desk, status, filter_by_job)
    if json:
        told = [{**asdict(row), "position": str(row.position or "") or None} for row in found]
        print_json({"cluster": desk.kube.access.name, "namespace": desk.namespace, "workloads": told})
        return ExitCode.DONE
    print("\n".join(_table(found)) if found else "", end="\n" if found else "")
    if not found:
        what = "workload" if status.upper() == "EVERYTHING" and not filter_by_job else "such workload"
        say(f"there is no {what} in namespace {desk.namespace} of {desk.kube.access.name}")
    return ExitCode.DONE


def explain(name: Name, /, *, where: Where = _NOWHERE, json: Json = False, verbose: Verbose = False) -> int:
    """Say what a workload is doing, what keeps it, by what evidence, and which command comes next."""
    show_calls(verbose)
    from tasks.stages.workloads import explanation

    told = explanation(office(where), name)
    if json:
        found = asdict(told.found)
        print_json({**asdict(told), "found": {**found, "attempt": told.found.attempt, "cause": _cause(told)}})
        return ExitCode.DONE
    _print(_lines(told))
    return ExitCode.DONE


def logs(
    name: Name,
    /,
    *,
    where: Where = _NOWHERE,
    worker: Annotated[int | None, Parameter(help="Of this worker only, over all slices, from 0")] = None,
    pod: Annotated[str | None, Parameter(help="Of this pod only, by its exact name")] = None,
    container: Annotated[str | None, Parameter(help="Of this container; else of all")] = None,
    tail: Annotated[int | None, Parameter(help="Only so many last lines of each")] = None,
    follow: Annotated[bool, Parameter(negative="", help="Go on until the workload has ended")] = False,
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
    from tasks.stages.workloads import logs as read

    found = list(read(desk, name, worker=worker, pod=pod, container=container, tail=tail))
    if json:
        print_json({"workload": name, "logs": [asdict(one) for one in found]})
        return ExitCode.DONE
    for one in found:
        who = f"[{one.worker}{f' {one.container}' if one.container else ''}]"
        _print(f"{who} {line}" for line in one.text.splitlines())
    if not found:
        say(f"workload {name} has no pods yet, or none any more: slicebench workload explain {name}")
    return ExitCode.DONE


def delete(
    *names: Annotated[str, Parameter(help="Names of JobSets")],
    where: Where = _NOWHERE,
    filter_by_job: Annotated[
        str | None, Parameter(help="All whose names this regular expression finds")
    ] = None,
    force: Annotated[
        bool, Parameter(negative="", show_default=False, help="Do not ask; also those of runs that go on")
    ] = False,
    wait: Annotated[str, Parameter(help="How long to wait for pods to end; 0s: not at all")] = "5m",
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete workloads, and wait until their pods are gone: until then their hardware is not free."""
    from flows.cli.tpu import seconds

    if bool(names) == (filter_by_job is not None):
        raise BadInput("say which workloads: names, or --filter-by-job", fix="slicebench workload list")
    limit_s = seconds(wait, "--wait")
    show_calls(verbose)
    from tasks.stages.workloads import chosen, wait_gone, whose
    from tasks.stages.workloads import delete as ask_to_go
    from tasks.targets.kube_objects import name as name_of

    desk = office(where)
    found = chosen(desk, names, filter_by_job)
    leased = [f"{name_of(one)} ({whose(one)})" for one in found if whose(one)]
    if leased and not force:
        raise BadInput(
            f"these belong to runs of slicebench, which give them back themselves: {', '.join(leased)}",
            fix="slicebench reap --lease LEASE, or --force",
        )
    if filter_by_job is not None and found and not force and not _agreed([name_of(one) for one in found]):
        return ExitCode.INTERRUPTED
    for one in found:
        ask_to_go(desk, one)
    if limit_s:
        wait_gone(desk, found, limit_s, say)
    gone = [name_of(one) for one in found]
    if json:
        print_json({"deleted": gone})
    else:
        say(f"deleted: {', '.join(gone)}" if gone else "there was nothing to delete")
    return ExitCode.DONE


def inspect(
    name: Name,
    /,
    *,
    where: Where = _NOWHERE,
    to: Annotated[Path | None, Parameter(help="The file; else NAME-inspect-TIME.tar.gz here")] = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Write all that the cluster says of a workload into one archive, without values of secret variables."""
    show_calls(verbose)
    from tasks.stages.workload_bundle import write_bundle

    file = to or Path(f"{name}-inspect-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    missing = write_bundle(office(where), name, file)
    if json:
        print_json({"workload": name, "file": str(file), "missing": list(missing)})
        return ExitCode.DONE
    for what in missing:
        say(f"not in it: {what}")
    print(file)
    return ExitCode.DONE


def office(where: Where) -> Desk:
    """Returns where workloads are asked about. Raises BadInput unless exactly one cluster is named."""
    told = [flag for flag in ("context", "cluster", "target") if getattr(where, flag)]
    if len(told) != 1:
        what = " and ".join(f"--{flag}" for flag in told)
        raise BadInput(
            f"{what} name a cluster each" if told else "which cluster?",
            fix="say one of --context, --cluster and --target",
        )
    if where.kubeconfig and not where.context:
        raise BadInput("--kubeconfig goes with --context")
    from tasks.cloud.kubernetes import Kubernetes
    from tasks.stages.workloads import Desk
    from tasks.targets.gke_access import reach_cluster, reach_context

    if where.context:
        reached = reach_context(where.context, where.kubeconfig, where.namespace)
    elif where.cluster:
        reached = reach_cluster(where.project, where.location, where.cluster, where.namespace or "default")
    else:
        from tasks.targets.gke_access import reach_target

        reached = reach_target(_target(where))
    namespace = where.namespace or reached.access.namespace
    return Desk(Kubernetes(reached.access), namespace, reached.gke, _flags(where))


def _flags(where: Where) -> str:
    given = {field.name: getattr(where, field.name) for field in fields(where)}
    return " ".join(f"--{flag} {shlex.quote(value)}" for flag, value in given.items() if value)


def _target(where: Where) -> GkeTargetConfig:
    from tasks.config.gke_target import GkeTargetConfig
    from tasks.config.load import load_target
    from tasks.config.locate import locate

    config = load_target(locate(where.target or "", "targets"))
    if not isinstance(config, GkeTargetConfig):
        raise BadInput(
            f"--target {where.target} is of kind {config.kind}, which has no workloads in a cluster"
        )
    return config


def _follow(desk: Desk, name: str, pod: str | None, container: str | None) -> int:
    from tasks.cloud.kubernetes_follow import follow
    from tasks.cloud.kubernetes_logs import Line as LogLine
    from tasks.cloud.kubernetes_watch import Change, Contact
    from tasks.stages.workloads import chosen
    from tasks.targets.kube_objects import uid_of

    [jobset] = chosen(desk, [name], None)
    for one in follow(desk.kube.access, desk.namespace, name, uid_of(jobset), until=_ends):
        match one:
            case LogLine(source, _, text):
                if pod in (None, source.pod) and container in (None, source.container):
                    _print([f"[{source.pod.removeprefix(f'{name}-')}] {text}"])
            case Contact(lost):
                say(f"the cluster does not answer: {lost}" if lost else "the cluster answers again")
            case Change():
                pass
    return ExitCode.DONE


def _ends(change: object) -> bool:
    from tasks.cloud.kubernetes_watch import Change
    from tasks.targets.kube_objects import status

    if not isinstance(change, Change) or change.kind.name != "JobSet":
        return False
    return change.type == "DELETED" or bool(status(change.object).get("terminalState"))


def _agreed(names: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise BadInput(f"this deletes {', '.join(names)}", fix="say --force, or name them")
    say(f"this deletes {', '.join(names)}")
    return input("delete them? (y/N) ").strip().lower() in ("y", "yes")


_HEADINGS = ("NAME", "CREATED", "PRIORITY", "NEEDED", "RUNNING", "DONE", "STATUS", "MESSAGE", "SINCE")


def _table(found: list[Row]) -> list[str]:
    from tasks.history.quantities import moment, printable

    cells = [
        (
            row.name,
            moment(row.created) if row.created else "–",
            row.priority or "–",
            str(row.needed),
            str(row.running),
            str(row.done),
            str(row.status),
            _message(row),
            moment(row.time) if row.time else "–",
        )
        for row in found
    ]
    lines = [_HEADINGS, *(tuple(printable(cell) for cell in line) for line in cells)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _message(row: Row) -> str:
    place = f" ({row.position})" if row.position else ""
    told = " ".join(f"{row.reason}: {row.message}".split())
    return f"{told if len(told) <= 100 else f'{told[:99]}…'}{place}"


def _lines(told: Explained) -> list[str]:
    from tasks.history.quantities import moment

    found = told.found
    since = f" since {moment(found.since)}" if found.since is not None else ""
    attempt = f", attempt {found.attempt}" if found.attempt > 1 else ""
    place = f", {found.position}" if found.position else ""
    lines = [f"{told.name}: {found.state} ({found.reason}{attempt}{place}){since}"]
    lines += [f"  {found.message}"] if found.message else []
    for trouble in told.troubles:
        lines += _trouble(trouble)
    lines += [f"  not known: {what}" for what in told.unknown]
    lines += [f"  see {label}: {link}" for label, link in told.links]
    commands = dict.fromkeys(command for trouble in told.troubles for command in trouble.next)
    return lines + [f"  next: {command}" for command in commands]


def _trouble(trouble: Trouble) -> Iterable[str]:
    yield f"  {trouble.what} ({trouble.name})"
    yield from (_evidence(line) for line in trouble.evidence)
    if trouble.unknown:
        yield f"    not known: {trouble.unknown}"


def _evidence(line: Line) -> str:
    return f"    seen: {line.place}: {line.text.strip()[:400]}"


def _cause(told: Explained) -> str | None:
    return str(told.found.cause) if told.found.cause else None


def _print(lines: Iterable[str]) -> None:
    from tasks.history.quantities import printable

    for line in lines:
        print(printable(line), flush=True)
