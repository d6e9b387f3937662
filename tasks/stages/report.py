"""Stage *report*: writes report.html into the run's folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contract.errors import InfrastructureError
from runtime.contract.names import LOGS_FOLDER, RESULTS_FOLDER, STAGES_FOLDER, SUITE_FILE
from tasks.cloud.storage import Folder, is_there, read_json
from tasks.config.commands import resume
from tasks.history.reading import load_results, load_verdicts
from tasks.history.report.excerpt import excerpt
from tasks.history.report.page import FailureLog, Surroundings, render_report
from tasks.history.results import POINTS_FILE, SAMPLES_FILE, PointOutcome, Results
from tasks.history.torn import collect_again
from tasks.history.verdict import VERDICTS_FILE, Verdict, Verdicts
from tasks.stages.context import Run
from tasks.stages.files import OUTCOME_FILE, REPORT_FILE, REQUEST_FILE, log_file
from tasks.stages.monitored import MONITORING_FILE, watch

_HOST = re.compile(rf"{RESULTS_FOLDER}/host-a(?P<attempt>\d+)-w(?P<worker>\d+)\.jsonl")


def report(run: Run) -> str:
    """Writes the report; returns where it lies. Raises InfrastructureError when the run was not collected."""
    results = load_results(run.folder)
    if results is not None:
        watch(run, results)
    where = report_folder(run.folder)
    run.say(f"report: {where}")
    return where


def report_folder(folder: Folder) -> str:
    """Does the same for a run's folder alone."""
    results = load_results(folder)
    if results is None:
        raise InfrastructureError(_why_nothing(folder))
    verdicts = load_verdicts(folder) or unjudged(results)
    page = render_report(results, verdicts, _surroundings(folder, results))
    folder.write(REPORT_FILE, page.encode())
    return f"{folder.uri}/{REPORT_FILE}"


def _why_nothing(folder: Folder) -> str:
    """Says why a run has nothing to report, and the command that helps."""
    outcome = _json(folder, OUTCOME_FILE)
    causes = outcome.get("causes")
    if not isinstance(causes, list) or not causes:
        return f"{folder.uri} was not collected yet: {collect_again(folder)}"
    ended = (
        f"it ended with exit code {outcome.get('exit_code')} before its results were collected: {causes[0]}"
    )
    return f"{folder.uri} has nothing to report: {ended}; go on with: {resume(folder.uri)}"


def unjudged(results: Results) -> Verdicts:
    """Returns what can be said of a run that was never compared with others."""
    return Verdicts(results.run_id, Verdict.NO_BASELINE, "the run was not compared with earlier ones")


def _surroundings(folder: Folder, results: Results) -> Surroundings:
    logs = [name for name in folder.names(LOGS_FOLDER) if name.endswith(".log")]
    known = [SAMPLES_FILE, POINTS_FILE, VERDICTS_FILE, SUITE_FILE, REQUEST_FILE]
    request, build = (_json(folder, name) for name in (REQUEST_FILE, f"{STAGES_FOLDER}/build.json"))
    return Surroundings(
        request=_section(request, "request"),
        image=_section(_section(build, "outputs"), "image"),
        failures=[
            found
            for point in results.points
            if point.status != "passed" and (found := _failure_log(folder, point, logs)) is not None
        ],
        files=[*(name for name in known if is_there(folder, name)), *logs],
        hosts=_hosts(folder),
        monitored=_json(folder, MONITORING_FILE),
    )


def _hosts(folder: Folder) -> Mapping[int, bytes]:
    """Returns what was counted on each worker's host in its latest attempt."""
    found = [match for name in folder.names(RESULTS_FOLDER) if (match := _HOST.fullmatch(name))]
    ordered = sorted(found, key=lambda match: int(match["attempt"]))
    latest = {int(match["worker"]): match[0] for match in ordered}
    return {worker: folder.read(name) or b"" for worker, name in latest.items()}


def _failure_log(folder: Folder, point: PointOutcome, logs: Sequence[str]) -> FailureLog | None:
    """Returns what the worker that the cause names said, of the attempt that counts; None when it left no log."""
    by_status = [one for status in ("failed", "not_run") for one in point.workers if one.status == status]
    for bad in by_status[:1]:
        for worker in (bad.worker if bad.blamed is None else bad.blamed, bad.worker):
            name = log_file(point.attempt or 1, worker)
            if name in logs:
                text = (folder.read(name) or b"").decode(errors="replace")
                return FailureLog(point.point, worker, name, excerpt(text, bad.cause, point.point))
    return None


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}


def _json(folder: Folder, name: str) -> Mapping[str, Any]:
    """Returns what another stage wrote, for show only: a missing or damaged file shows as nothing."""
    found = read_json(folder, name)
    return found if isinstance(found, dict) else {}
