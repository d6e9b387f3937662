"""`slicebench runs`: the runs that lie in an output, the latest last."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from flows.cli import tables
from flows.cli.said import Json, print_json, say
from flows.cli.wrong_flags import checked_range
from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode
from tasks.cloud.storage import open_folder
from tasks.config.home import runs_folder
from tasks.history.quantities import moment, printable, seconds
from tasks.stages.past import PastRun, looked_into, past_runs

Output = Annotated[
    str | None, Parameter(help="Folder of runs: a path or gs://…; default: $SLICEBENCH_HOME/runs")
]

_HEADINGS = ("run", "started", "suite", "target", "verdict", "exit", "took")


def runs(
    *,
    output: Output = None,
    last: Annotated[int, Parameter(help="How many to show")] = 20,
    json: Json = False,
) -> int:
    """List past runs: when, what, where, verdict, exit code and duration."""
    checked_range("--last", last, 1)
    folder = open_folder(output or str(runs_folder()))
    if output and "://" not in output and not Path(folder.uri).is_dir():
        raise BadInput(f"there is no folder {folder.uri}", fix="name the --output of your runs")
    found = past_runs(folder)
    shown = looked_into(folder, found[-last:])
    if json:
        listed = [{**asdict(run), "duration_s": run.duration_s} for run in shown]
        print_json({"output": folder.uri, "runs": listed})
        return ExitCode.DONE
    if not found:
        say(f"no runs in {folder.uri}{_why_none(folder.uri)}")
        return ExitCode.DONE
    for line in tables.lines(_HEADINGS, [_row(run) for run in shown]):
        print(line)
    for run in shown:
        if run.state.startswith("damaged"):
            say(printable(f"{run.run_id} is {run.state}"))
    if len(shown) < len(found):
        say(f"{counted(len(found) - len(shown), 'earlier run')} not shown: --last {len(found)}")
    return ExitCode.DONE


def _why_none(uri: str) -> str:
    """Says of a place where no run is yet that there is no such folder. Raises BadInput where there can be none."""
    if "://" in uri or Path(uri).is_dir():
        return ""
    there = next(one for one in (Path(uri), *Path(uri).parents) if one.exists())
    if not there.is_dir():
        raise BadInput(
            f"no runs can be in {uri}: {there} is no folder", fix="name another by SLICEBENCH_HOME"
        )
    return ": there is no such folder yet"


def _row(run: PastRun) -> tuple[str, ...]:
    cells = (
        run.run_id,
        moment(run.created_at),
        run.suite,
        run.target,
        (run.verdict or "–") if run.state == "done" else run.state.partition(":")[0],
        "–" if run.exit_code is None else str(run.exit_code),
        "–" if run.duration_s is None else seconds(run.duration_s),
    )
    return tuple(printable(cell) for cell in cells)
