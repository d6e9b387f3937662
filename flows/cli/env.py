"""`slicebench env …`: a shared, queued cluster with all that is around it in a project, from one file."""

from __future__ import annotations

import json as plain_json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from flows.cli.said import Json, Over, print_json, say, tell_gone
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.config.environment import EnvironmentConfig
    from tasks.leases.resource import ResourceRef
    from tasks.stages.environment_desk import Desk
    from tasks.stages.environment_plan import Plan, Preview
    from tasks.targets.environment_diff import Difference

File = Annotated[str, Parameter(help="The environment: a path, or a name in configs/environments/")]
Set = Annotated[
    tuple[str, ...],
    Parameter("--set", negative="", help="KEY=VALUE overrides what the file says, e.g. tpu_pools=0"),
]
Project = Annotated[
    str | None,
    Parameter(help="Google Cloud project; default: the file's, the environment variable's or gcloud's"),
]


Wait = Annotated[
    str | None,
    Parameter(
        help="How long to wait while somebody else is changing it, such as 30m; default: it is refused at once"
    ),
]
Force = Annotated[
    bool, Parameter(negative="", show_default=False, help="End what still runs in it without asking")
]


_STAYS = "what was made stays in the record; ending, a moment … (once more: at once)"


def plan(
    file: File,
    /,
    *,
    set: Set = (),
    offline: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Do not ask Google; show all that would be asked for, field by field",
        ),
    ] = False,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Show what exists, what is missing, what differs, and what it costs. Creates nothing."""
    show_calls(verbose)
    config = read(file, set)
    from tasks.stages.environment_plan import plan as look
    from tasks.stages.environment_plan import preview, warnings

    seen = preview(config, project)
    say(*(f"warning: {one}" for one in (seen.warnings if offline else warnings(config, looks=True))))
    if offline:
        if json:
            print_json(asdict(seen))
        else:
            print("\n".join(_lines(seen)))
        return ExitCode.DONE
    planned = look(desk(config, project), config)
    say(*(f"warning: {one}" for one in planned.warnings))
    if json:
        print_json({**_plain(planned), "price_per_hour": seen.price_per_hour})
    else:
        print("\n".join((f"environment {seen.name} in {seen.project}", *_steps(planned), _tpus(seen))))
    say(*map(str, planned.problems))
    return ExitCode.BAD_INPUT if planned.problems else ExitCode.DONE


def up(
    file: File,
    /,
    *,
    set: Set = (),
    force: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="End what runs on node pools that go without asking"),
    ] = False,
    wait: Wait = None,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Create an environment, or change it to match its file; what others made stays. Safe to repeat after a failure."""
    show_calls(verbose)
    config, wait_s = read(file, set), _seconds(wait)
    from flows.cli.cluster import agreeing_to_lose
    from flows.cli.env_words import as_said, left_behind, links
    from flows.signals import interrupting
    from tasks.stages.environment import bootstrap
    from tasks.stages.environment import up as make
    from tasks.stages.environment_plan import warnings

    say(*(f"warning: {one}" for one in warnings(config, looks=True)))
    with left_behind(lambda: desk(config, project), config, file), interrupting(say, meanwhile=_STAYS):
        bootstrap(desk(config, project), config)
        made = desk(config, project)  # from now on with its record
        done = make(made, config, agree=agreeing_to_lose(force), wait_s=wait_s)
    if json:
        told = {"name": config.called, "project": made.project, "record": config.record}
        found = {"resources": [_ref(one) for one in done.resources], "links": links(config, made.project)}
        print_json({**told, **asdict(done), **found})
    else:
        back = f"give it back with: slicebench env down {file}"
        say(f"environment {config.called} is as {as_said(file, set, done.stays)}; {back}")
        say(*(f"  see {what}: {page}" for what, page in links(config, made.project).items()))
    return ExitCode.DONE


def down(
    file: File,
    /,
    *,
    set: Set = (),
    bucket: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Delete its bucket as well: only if empty, or with bucket.force_destroy",
        ),
    ] = False,
    force: Force = False,
    wait: Wait = None,
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Delete an environment, in order, and verify that it is gone. Its bucket stays unless asked for."""
    show_calls(verbose)
    config, wait_s = read(file, set), _seconds(wait)
    from flows.cli.cluster import agreeing_to_end
    from flows.cli.env_words import left_behind
    from flows.signals import interrupting
    from tasks.stages.environment import bucket_left
    from tasks.stages.environment import down as give_back

    with left_behind(lambda: desk(config, project), config, file), interrupting(say, meanwhile=_STAYS):
        agree = agreeing_to_end(config.cluster.name, force)
        gone = give_back(desk(config, project), config, bucket=bucket, agree=agree, wait_s=wait_s)
        left = bucket_left(desk(config, project), config)
    code = tell_gone(f"environment {config.called}", gone, json, [f"bucket {left}"] if left else [])
    if left:
        say(f"bucket {left} costs what is in it; give it back with: slicebench env down {file} --bucket")
    return code


def export(
    file: File,
    /,
    *,
    format: Annotated[Literal["terraform"], Parameter(help="As what")] = "terraform",
    to: Annotated[Path | None, Parameter(help="File to write, e.g. main.tf.json; default: stdout")] = None,
    force: Over = False,
    set: Set = (),
    project: Project = None,
    verbose: Verbose = False,
) -> int:
    """Write an environment as a Terraform configuration (JSON), for those who manage it with that. Asks no service."""
    show_calls(verbose)
    from tasks.cloud.named_file import refuse_there, write_named

    if to is not None:
        refuse_there(to, force=force)
    config = read(file, set)
    from tasks.stages.environment_desk import project_of
    from tasks.targets.environment_terraform import export as exported

    found = exported(config, project_of(config, project))
    text = plain_json.dumps(found.document, indent=2)
    if to is None:
        print(text)
    else:
        write_named(to, f"{text}\n".encode(), force=force)
    say(*(f"not in it: {one}" for one in found.left_out))
    return ExitCode.DONE


def _seconds(wait: str | None) -> float:
    from runtime.contract.errors import BadInput
    from tasks.config import duration

    try:
        return duration.seconds(wait) if wait is not None else 0.0
    except (ValueError, BadInput):
        raise BadInput(f"--wait {wait}: {wait!r} is no time", fix="write 30m or 2h") from None


def desk(config: EnvironmentConfig, project: str | None) -> Desk:
    """Returns where an environment is worked on."""
    from tasks.config.home import scratch_folder
    from tasks.stages.environment_desk import opened

    return opened(config, project, say, scratch=scratch_folder())


def read(file: str, overrides: tuple[str, ...]) -> EnvironmentConfig:
    """Returns what a file says, with what is said in its place. Raises BadInput."""
    from tasks.config.locate import locate

    path = locate(file, "environments")  # a name that is none is refused before pydantic is loaded
    from tasks.config.environment_file import load_environment

    return load_environment(path, overrides)


def _lines(seen: Preview) -> Iterator[str]:
    """Yields what there would be, for people: a resource a line, with its fields below."""
    yield f"environment {seen.name} in {seen.project}; its record: {seen.record}"
    apis = [one.name for one in seen.wanted if one.kind == "api"]
    yield f"  {counted(len(apis), 'API')}: {', '.join(name.partition('.')[0] for name in apis)}"
    for one in seen.wanted:
        if one.kind == "api":
            continue
        yield f"  {one}{' (is to be there)' if one.existing else ''}"
        if not one.kind.endswith("role"):  # their name says it all
            yield from (f"      {path}: {value}" for path, value in _flat(one.fields))
    yield _tpus(seen)
    yield f"who makes it needs {', '.join(dict.fromkeys(need.role for need in seen.needs))}"


def _ref(ref: ResourceRef) -> dict[str, Any]:
    return {"kind": ref.kind, "scope": ref.scope, "name": ref.name, "uid": ref.uid, "ours": ref.ours}


def _plain(planned: Plan) -> dict[str, Any]:
    """Returns a plan for programs: of each thing what is done and what differs, and not all that is there."""
    steps = [
        {
            "do": one.do,
            "kind": one.wanted.kind,
            "scope": one.wanted.scope,
            "name": one.wanted.name,
            "why": one.why,
            "differences": [asdict(each) for each in one.differences],
        }
        for one in planned.steps
    ]
    return {
        "empty": planned.empty,
        "bootstrap": planned.bootstrap,
        "turn_on": list(planned.off),
        "steps": steps,
        "cluster": list(planned.cluster),
        "differs": {what: [asdict(one) for one in fields] for what, fields in planned.differs.items()},
        "unnamed": [{**_ref(one.ref), "goes": one.goes} for one in planned.unnamed],
        "beside": list(planned.beside),
        "warnings": list(planned.warnings),
        "problems": [str(one) for one in planned.problems],
    }


def _steps(planned: Plan) -> Iterator[str]:
    """Yields what would be done, for people: what is as it should be is counted only."""
    if planned.bootstrap:
        yield f"  bootstrap: make bucket {planned.bootstrap} for the record"
    if planned.off:
        yield f"  turn on {', '.join(name.partition('.')[0] for name in planned.off)}"
    for step in planned.steps:
        if step.do in ("make", "change", "refuse"):
            yield f"  {step}"
            yield from (f"      {_told(one)}" for one in step.differences)
    yield from (f"  refuse {one.what}" for one in planned.against)
    yield from (f"  {step}" for step in planned.cluster)
    for what, fields in planned.differs.items():
        yield f"  {what} differs:"
        yield from (f"      {_told(one)}" for one in fields)
    for each in planned.unnamed:
        why = "the file does not name it any more"
        yield (
            f"  give back {each.told}: {why}"
            if each.goes
            else f"  {each.told}: {why}; it stays until `env down`"
        )
    yield from (f"  beside it: {one}" for one in planned.beside)
    alike = sum(step.do == "keep" for step in planned.steps)
    used = sum(step.do == "use" for step in planned.steps)
    before = f", {counted(used, 'thing')} that {'were' if used > 1 else 'was'} there before" if used else ""
    yield f"nothing to do{before}" if planned.empty else f"as it should be: {counted(alike, 'thing')}{before}"


def _told(one: Difference) -> str:
    return str(one) if one.can else f"{one} (stays: {one.instead})"


def _tpus(seen: Preview) -> str:
    pools = f"{counted(seen.chips, 'chip')} in pools of {counted(seen.hosts_per_pool, 'host')}"
    return f"TPUs: {pools}{_price(seen)}"


def _price(seen: Preview) -> str:
    if seen.price_per_hour is None:
        return ", of which no price is known"
    while_there = " while pods ask for all of them" if seen.comes_and_goes else ""
    return (
        f", ${seen.price_per_hour:.2f} an hour by list prices{while_there}; CPU machines, disks, addresses, the "
        "control plane and what is stored are not in it"
    )


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yields fields by their paths, lists as a whole."""
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", plain_json.dumps(value, ensure_ascii=False)
