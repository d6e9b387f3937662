"""`slicebench env …`: a shared, queued cluster with all that is around it in a project, from one file."""

from __future__ import annotations

import json as plain_json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from flows.cli.said import Json, print_json, say
from flows.cli.verbose import Verbose, show_calls
from runtime.contract.counting import counted
from runtime.contract.errors import ExitCode

if TYPE_CHECKING:
    from tasks.config.environment import EnvironmentConfig
    from tasks.stages.environment import Preview

File = Annotated[str, Parameter(help="The environment: a path, or a name in configs/environments/")]
Set = Annotated[
    tuple[str, ...],
    Parameter("--set", negative="", help="KEY=VALUE in place of what the file says, e.g. tpu_pools=0"),
]
Project = Annotated[
    str | None, Parameter(help="Google Cloud project; else the file's, the environment's or gcloud's")
]


def plan(
    file: File,
    /,
    *,
    set: Set = (),
    project: Project = None,
    json: Json = False,
    verbose: Verbose = False,
) -> int:
    """Say what an environment is made of, what it costs, and what making it must be allowed. Makes nothing."""
    show_calls(verbose)
    config = read(file, set)
    from tasks.stages.environment import preview

    seen = preview(config, project)
    if json:
        print_json(asdict(seen))
    else:
        print("\n".join(_lines(seen)))
    say(*(f"warning: {one}" for one in seen.warnings))
    return ExitCode.DONE


def read(file: str, overrides: tuple[str, ...]) -> EnvironmentConfig:
    """Returns what a file says, with what is said in its place. Raises BadInput."""
    from tasks.config.locate import locate

    path = locate(file, "environments")
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
    yield f"TPUs: {counted(seen.chips, 'chip')} in pools of {counted(seen.hosts_per_pool, 'host')}{_price(seen)}"
    yield f"who makes it needs {', '.join(need.role for need in seen.needs)}"


def _price(seen: Preview) -> str:
    if seen.price_per_hour is None:
        return ", of which no price is known"
    return (
        f", ${seen.price_per_hour:.2f} an hour by list prices; CPU machines, disks, addresses, the control plane and "
        "what is stored are not in it"
    )


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yields fields by their paths, lists as a whole."""
    for name, value in fields.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", plain_json.dumps(value)
