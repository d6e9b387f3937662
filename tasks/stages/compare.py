"""Stage *compare*: looks for earlier runs that are comparable, and writes what can be said of this one."""

from __future__ import annotations

import shlex

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, open_folder
from tasks.config.home import history_uri
from tasks.history.comparison import comparable, judge, past_run
from tasks.history.limits import shifts
from tasks.history.reading import load_measurements, load_points, load_results
from tasks.history.results import Results
from tasks.history.torn import collect_again
from tasks.history.verdict import VERDICTS_FILE, Verdicts
from tasks.stages.context import Run, Say
from tasks.stages.excluded import excluded_in


def compare(run: Run) -> Verdicts:
    """Judges the run by the earlier ones in the same output, and adds its numbers to the history, where it has one.

    Raises InfrastructureError when it was not collected.
    """
    history = run.spec.history
    verdicts = compare_folder(open_folder(run.spec.output), run.folder, run.say, history)
    if history:
        _add(run, history)
    return verdicts


def _add(run: Run, history: str) -> None:
    """Adds the run to the history. What fails here is told: its numbers are safe in its folder."""
    from tasks.stages.history import open_history, take_in_run

    taken = take_in_run(open_history(history), run.folder)
    if taken.why_not:
        again = shlex.join(["slicebench", "history", "import", run.folder.uri, "--history", history])
        run.say(f"its numbers are not in the history: {taken.why_not}; add them: {again}")
    else:
        run.say(f"{taken.series} series added to the history {history}")


def compare_folder(output: Folder, folder: Folder, say: Say, history: str = "") -> Verdicts:
    """Judges the run that lies in a folder of an output. Nights that the history excludes are no baseline."""
    current = load_results(folder)
    if current is None:
        raise InfrastructureError(f"{folder.uri} was not collected yet: {collect_again(folder)}")
    earlier, unreadable = _earlier(output, current.run_id)
    excluded, troubles = excluded_in(open_folder(history or history_uri()), output)
    earlier, left_out = excluded.whole(earlier)
    fit, reasons = comparable(current, earlier)
    baseline = []
    for past in fit:
        try:
            baseline.append(
                excluded.series(past, past_run(load_measurements(output.child(past.run_id), past)))
            )
        except InfrastructureError as error:
            unreadable.append(str(error))
    told = [*reasons, *left_out, *unreadable, *troubles]
    verdicts = judge(current, baseline, told, machine=shifts(current, fit))
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
