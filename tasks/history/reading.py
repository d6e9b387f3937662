"""Reads a collected run back from its folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder
from tasks.history.results import POINTS_FILE, SAMPLES_FILE, PointOutcome, Results, results_from_json
from tasks.history.samples import Damaged, NewerSchema, measurements, read_part
from tasks.history.torn import collect_again, is_cut_short
from tasks.history.verdict import VERDICTS_FILE, Verdicts, verdicts_from_json


def load_points(folder: Folder) -> Results | None:
    """Returns what collect wrote, without measurements; None when the run was not collected."""
    content = folder.read(POINTS_FILE)
    if content is None:
        return None
    return results_from_json(content, f"{folder.uri}/{POINTS_FILE}", collect_again(folder))


def load_results(folder: Folder) -> Results | None:
    """Returns what collect wrote, with measurements; None when the run was not collected.

    Raises InfrastructureError when a file is damaged or newer than this slicebench.
    """
    results = load_points(folder)
    return None if results is None else load_measurements(folder, results)


def load_measurements(folder: Folder, results: Results) -> Results:
    """Adds what samples.parquet holds. Raises InfrastructureError when that cannot be read."""
    content = folder.read(SAMPLES_FILE)
    place = f"{folder.uri}/{SAMPLES_FILE}"
    if content is None:
        raise InfrastructureError(f"{place} is missing: {collect_again(folder)}")
    if is_cut_short(content):
        raise InfrastructureError(f"{place} is cut short: {collect_again(folder)}")
    try:
        table = read_part(content)
    except (Damaged, NewerSchema) as error:
        again = "" if isinstance(error, NewerSchema) else f": {collect_again(folder)}"
        raise InfrastructureError(f"{place} cannot be read ({error}){again}") from error
    return dataclasses.replace(results, measurements=measurements(table, attempts_of(results.points)))


def attempts_of(points: Sequence[PointOutcome]) -> dict[int, int]:
    """Returns which attempt counts for each point that ran."""
    return {point.point: point.attempt for point in points if point.attempt is not None}


def load_verdicts(folder: Folder) -> Verdicts | None:
    """Returns what compare wrote; None when the run was not compared."""
    content = folder.read(VERDICTS_FILE)
    if content is None:
        return None
    return verdicts_from_json(content, f"{folder.uri}/{VERDICTS_FILE}", collect_again(folder))
