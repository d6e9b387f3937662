"""Compares one run with another that somebody names, and says what cannot be compared, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.storage import Folder, open_folder
from tasks.config.home import history_uri
from tasks.history.comparison import SeriesKey
from tasks.history.dataset.rows import series_id
from tasks.history.detection.baseline import scatter_of
from tasks.history.intervals import t_quantile
from tasks.history.pair import Comparison, compared, incomparable
from tasks.history.reading import load_results
from tasks.history.results import Results
from tasks.history.torn import collect_again
from tasks.stages.excluded import belonging_of
from tasks.stages.history import look, open_history
from tasks.stages.past import find_run


@dataclass(frozen=True)
class Usual:
    """How far two runs of a series differ when nothing changed, by series; and what of the history cannot be read."""

    of: Mapping[SeriesKey, float]
    troubles: tuple[str, ...] = ()


def compare_two(output: Folder, run: str, to: str, history: str | None) -> tuple[Comparison, Usual]:
    """Compares two runs. Raises BadInput where that would say nothing, with the reason."""
    here, there = find(output, run), find(output, to)
    results, other = collected(here), collected(there)
    if why := incomparable(results, other):
        raise BadInput(f"{results.run_id} cannot be compared with {other.run_id}: {why}")
    usual = usual_of(results, here, history)
    return compared(results, other, usual.of), usual


def find(output: Folder, word: str) -> Folder:
    """Returns the folder of a run: by its id, its beginning or `latest` in the output, or by its own path or URI."""
    return open_folder(word) if "/" in word else find_run(output, word)


def collected(folder: Folder) -> Results:
    """Returns what a run gave. Raises InfrastructureError when that was not collected or cannot be read."""
    results = load_results(folder)
    if results is None:
        raise InfrastructureError(f"{folder.uri} was not collected yet: {collect_again(folder)}")
    return results


def usual_of(results: Results, folder: Folder, history: str | None) -> Usual:
    """Returns how far two runs of this run's series differ at most in 19 of 20 cases, where the history knows.

    A history that cannot be read is told, and costs no comparison.
    """
    try:
        looked = look(open_history(history))
    except InfrastructureError as error:
        return Usual({}, (f"the history in {history or history_uri()} cannot be read: {error}",))
    track, known = belonging_of(folder).track, looked.records.series
    found = {}
    for one in results.measurements:
        key = one.benchmark_key, one.operation, one.metric
        series = known.get(series_id(*key, results.fingerprint, track))
        scatter = scatter_of(series.nights) if series else None
        if scatter:
            reach = t_quantile(scatter.degrees) * math.sqrt(2 * scatter.variance)
            found[key] = math.expm1(reach)
    return Usual(found, tuple(looked.troubles))
