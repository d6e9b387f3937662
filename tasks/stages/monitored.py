"""What Cloud Monitoring has of a run's accelerators, brought into its folder beside what its workers measured.

It comes minutes late, and may be off or not to be had: none of that holds up a run or fails it. What is there when the
report is made stands in it; whoever asks for the report once all of it must be there gets the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from runtime.contract.errors import InfrastructureError
from runtime.contract.names import RESULTS_FOLDER
from tasks.cloud.storage import Folder, read_json
from tasks.cloud.timing import Timing
from tasks.config.gke_target import GkeTargetConfig
from tasks.history.results import Results
from tasks.leases.left import ATTEMPTS_FILE
from tasks.stages.context import Run
from tasks.stages.in_cluster import place_of_scope

MONITORING_FILE = f"{RESULTS_FOLDER}/monitoring.json"

_TIMING = Timing(try_s=5.0, total_s=5.0)
_LIMIT_S = 15.0
"""A report is not held up longer."""
_KEPT_S = 42 * 86400.0
"""How long Cloud Monitoring keeps what GKE writes."""


def watch(run: Run, results: Results) -> None:
    """Brings what there is by now of a run on accelerators of GKE. Raises nothing that is against it: it is told."""
    target = run.spec.target
    if isinstance(target, GkeTargetConfig) and target.shape.kind in ("tpu", "gpu"):
        pull(run.folder, results, run.say)


def pull(folder: Folder, results: Results, say: Callable[[str], None]) -> None:
    """Writes what Cloud Monitoring has of a run's workloads by now, or why it has nothing; none in other clusters."""
    from tasks.cloud.monitoring import LATE_S, series_of

    watched = dict(_watched(folder))
    if not watched:
        return
    begin, over = results.asked_at or results.started_at or 0.0, results.collected_at or time.time()
    found: list[dict[str, Any]] = []
    why, now = "", time.time()
    try:
        for attempt, one in watched.items():
            told = series_of(one, begin, min(now, over + 60.0), _TIMING, _LIMIT_S / len(watched))
            found += [{"attempt": attempt, **asdict(each)} for each in told]
    except InfrastructureError as error:
        why = str(error)
    whole = not why and now >= over + LATE_S
    folder.write(
        MONITORING_FILE,
        json.dumps({"asked_at": now, "whole": whole, "why": why, "series": found}).encode(),
    )
    say(_words(len(found), whole, why))


def is_due(folder: Folder, results: Results | None, now: float) -> bool:
    """Whether what was brought before may lack something that is there by now."""
    from tasks.cloud.monitoring import LATE_S

    told = read_json(folder, MONITORING_FILE)
    if results is None or not isinstance(told, Mapping) or told.get("whole", True):
        return False
    return LATE_S <= now - (results.collected_at or 0.0) < _KEPT_S


def _watched(folder: Folder) -> Iterator[tuple[int, Any]]:
    """Yields each attempt of a run that was in a cluster of GKE, with its workload there."""
    from tasks.cloud.monitoring import Watched

    attempts = read_json(folder, ATTEMPTS_FILE)
    for one in attempts if isinstance(attempts, list) else ():
        ref = one.get("ref") if isinstance(one, Mapping) else None
        if not isinstance(ref, Mapping) or ref.get("kind") != "gke":
            continue
        place = place_of_scope(str(ref.get("scope", "")))
        if place is not None:
            named = place.project, place.location, place.cluster, place.namespace
            yield int(one.get("n", 0)), Watched(*named, str(ref.get("name", "")))


def _words(series: int, whole: bool, why: str) -> str:
    if why:
        return f"Cloud Monitoring's metrics of the accelerators are not in the results: {why}"
    told = f"metrics of accelerators from Cloud Monitoring: {series} series"
    if not whole:
        told += "; what came last shows there minutes later: `slicebench report` brings it then"
    return told
