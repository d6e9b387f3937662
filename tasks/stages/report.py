"""Stage *report*: writes report.html into the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contract.errors import InfrastructureError
from runtime.contract.names import LOGS_FOLDER, STAGES_FOLDER, SUITE_FILE
from tasks.cloud.storage import Folder
from tasks.history.reading import load_results, load_verdicts
from tasks.history.report.page import Surroundings, render_report
from tasks.history.results import POINTS_FILE, SAMPLES_FILE, Results
from tasks.history.verdict import VERDICTS_FILE, Verdict, Verdicts
from tasks.stages.context import Run

REPORT_FILE = "report.html"
_REQUEST_FILE = "request.json"
_LINES = 60
"""How much of the end of a failed worker's log the report shows."""


def report(run: Run) -> str:
    """Writes the report; returns where it lies. Raises InfrastructureError when the run was not collected."""
    where = report_folder(run.folder)
    run.say(f"report: {where}")
    return where


def report_folder(folder: Folder) -> str:
    """Does the same for a run's folder alone."""
    results = load_results(folder)
    if results is None:
        raise InfrastructureError(f"{folder.uri} was not collected yet: run with --resume --from collect")
    verdicts = load_verdicts(folder) or Verdicts(
        results.run_id, Verdict.NO_BASELINE, "the run was not compared with earlier ones"
    )
    page = render_report(results, verdicts, _surroundings(folder, results))
    folder.write(REPORT_FILE, page.encode())
    return f"{folder.uri}/{REPORT_FILE}"


def _surroundings(folder: Folder, results: Results) -> Surroundings:
    logs = list(folder.names(LOGS_FOLDER))
    known = [SAMPLES_FILE, POINTS_FILE, VERDICTS_FILE, SUITE_FILE, _REQUEST_FILE]
    build = _json(folder, f"{STAGES_FOLDER}/build.json").get("outputs")
    return Surroundings(
        request=_json(folder, _REQUEST_FILE),
        image=build if isinstance(build, Mapping) else {},
        log_ends={worker: _end_of_log(folder, worker) for worker in _worth_a_look(results)},
        files=[*(name for name in known if folder.read(name) is not None), *logs],
    )


def _worth_a_look(results: Results) -> Sequence[int]:
    """Returns the workers whose logs may say why a point did not pass."""
    bad = {
        worker.worker
        for point in results.points
        if point.status != "passed"
        for worker in point.workers
        if worker.status != "passed"
    }
    return sorted(bad)


def _end_of_log(folder: Folder, worker: int) -> str:
    content = folder.read(f"{LOGS_FOLDER}/worker-{worker:04d}.log")
    lines = (content or b"").decode(errors="replace").splitlines()
    return "\n".join(lines[-_LINES:])


def _json(folder: Folder, name: str) -> Mapping[str, Any]:
    """Returns what another stage wrote, for show only: a missing or damaged file shows as nothing."""
    try:
        found = json.loads(folder.read(name) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
