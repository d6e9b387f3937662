"""`slicebench doctor`: what would stop a run on this machine or a target, each with what fixes it. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from flows.cli.runs import Output
from flows.cli.said import Json, print_json
from flows.server import known_server
from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.config.home import home, ledger_uri, runs_folder
from tasks.history.quantities import printable
from tasks.stages.doctor import Check, Finding, examine, local_checks
from tasks.stages.doctor_targets import target_checks, worst_of

_SIGNS = {"fine": "ok", "warning": "warning", "wrong": "WRONG", "unknown": "not known"}


def doctor(
    *,
    target: Annotated[
        str, Parameter(help="Target to look at: a name in configs/targets/, or a path")
    ] = "local",
    output: Output = None,
    json: Json = False,
) -> int:
    """Check what a run needs, here and on a target. Exit code 3: something is wrong."""
    from tasks.config.locate import locate
    from tasks.targets.target_file import checked_target

    config = checked_target(locate(target, "targets"))
    checks = local_checks(home(), output or str(runs_folder()), ledger_uri())
    checks += [Check("prefect", look_at_prefect, 8.0), *target_checks(target, config)]
    found = examine(checks)
    wrong = worst_of(found)
    if json:
        print_json({"target": target, "wrong": wrong, "findings": [asdict(one) for one in found]})
    else:
        print("\n".join(_lines(found)))
    return ExitCode.INFRASTRUCTURE if wrong else ExitCode.DONE


def look_at_prefect() -> Sequence[Finding]:
    """Whether the Prefect server that runs go through answers and lets us in; having none is fine."""
    server = known_server()
    if server is None:
        return [Finding("prefect", "fine", "no server is named: a run starts one of its own for itself")]
    from flows.api import PrefectApi

    try:
        with PrefectApi(server, timeout_s=3.0) as api:
            api.check()
    except InfrastructureError as error:
        fix = (
            "slicebench down; slicebench up" if server.source == "slicebench up" else "unset PREFECT_API_URL"
        )
        return [Finding("prefect", "wrong", str(error), f"{fix}   # or start that server")]
    return [Finding("prefect", "fine", f"{server} answers and lets us in")]


def _lines(found: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in found:
        lines.append(printable(f"{_SIGNS[finding.status]:9} {finding.check}: {finding.what}"))
        if finding.fix and finding.status != "fine":
            lines.append(printable(f"{'':9}   fix: {finding.fix}"))
    return lines
