"""Stage *compare*: looks for earlier runs that are comparable, and writes what can be said of this one."""

from __future__ import annotations

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, open_folder
from tasks.history.comparison import comparable, judge, past_run
from tasks.history.reading import load_measurements, load_points, load_results
from tasks.history.results import Results
from tasks.history.torn import collect_again
from tasks.history.verdict import VERDICTS_FILE, Verdicts
from tasks.stages.context import Run, Say


def compare(run: Run) -> Verdicts:
    """Judges the run by the earlier ones in the same output. Raises InfrastructureError when it was not collected."""
    return compare_folder(open_folder(run.spec.output), run.folder, run.say)


def compare_folder(output: Folder, folder: Folder, say: Say) -> Verdicts:
    """Does the same for a run's folder in an output, without its spec."""
    current = load_results(folder)
    if current is None:
        raise InfrastructureError(f"{folder.uri} was not collected yet: {collect_again(folder)}")
    earlier, unreadable = _earlier(output, current.run_id)
    fit, reasons = comparable(current, earlier)
    baseline = []
    for past in fit:
        try:
            baseline.append(past_run(load_measurements(output.child(past.run_id), past)))
        except InfrastructureError as error:
            unreadable.append(str(error))
    verdicts = judge(current, baseline, [*reasons, *unreadable])
    folder.write(VERDICTS_FILE, verdicts.to_json().encode())
    say(f"verdict: {verdicts.of_run(current)} ({verdicts.reason})")
    return verdicts


def _earlier(output: Folder, run_id: str) -> tuple[list[Results], list[str]]:
    """Returns all collected runs of an output but this one, and what could not be read of others."""
    found, unreadable = [], []
    for name in output.folders():
        if name == run_id:
            continue
        try:
            results = load_points(output.child(name))
        except InfrastructureError as error:
            unreadable.append(str(error))
            continue
        if results is not None and results.run_id == name:
            found.append(results)
    return found, unreadable
