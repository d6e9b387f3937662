"""`slicebench logs RUN`: what the workers of a run said, whole or as it comes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from cyclopts import Parameter

from flows.cli.report import Which
from flows.cli.runs import Output
from flows.cli.said import Json, print_json, say
from runtime.contract.errors import BadInput, ExitCode
from tasks.config.commands import run_words
from tasks.history.quantities import printable
from tasks.leases.opening import the_ledger
from tasks.stages.by_lease import find_anywhere
from tasks.stages.logs import follow_logs, is_resting, log_lines, worker_logs


def logs(
    run: Which = "latest",
    /,
    *,
    worker: Annotated[int | None, Parameter(help="Only of this worker")] = None,
    follow: Annotated[bool, Parameter(negative="", help="Keep following until the run has ended")] = False,
    output: Output = None,
    json: Json = False,
) -> int:
    """Print what the workers said in the latest attempt, each line with its worker's number."""
    if follow and json:
        raise BadInput("--json prints one object, which --follow cannot: it has no end", fix="leave one out")
    folder = find_anywhere(output, run, the_ledger)
    if is_resting(folder):
        words = run_words(folder.uri)
        say(
            f"nobody follows its workload, which goes on: what it says, and where: slicebench explain {words}"
        )
    if follow:
        _print(follow_logs(folder, worker))
        return ExitCode.DONE
    files = worker_logs(folder)
    if worker is not None and worker not in files:
        known = ", ".join(map(str, files)) or "none"
        raise BadInput(
            f"there is no log of worker {worker} in {folder.uri}", fix=f"workers with logs: {known}"
        )
    if not files:
        say(f"no worker of {folder.uri} has said anything yet")
    chosen = {number: name for number, name in files.items() if worker in (None, number)}
    if json:
        lines = [{"worker": number, "text": text} for number, text in log_lines(folder, chosen)]
        print_json({"run": folder.uri, "lines": lines})
    else:
        _print(log_lines(folder, chosen))
    return ExitCode.DONE


def _print(lines: Iterable[tuple[int, str]]) -> None:
    for number, text in lines:
        print(f"[{number}] {printable(text)}", flush=True)
