"""Runs that lie in an output: lists them, and finds the one that somebody means."""

from __future__ import annotations

import difflib
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.storage import Folder, is_there
from tasks.config.commands import output_words
from tasks.history.torn import torn
from tasks.leases.left import left_in
from tasks.stages.asked import never_began, read_asked
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE

LATEST = "latest"
_AT_ONCE = 8


@dataclass(frozen=True)
class PastRun:
    """One run. Times are seconds since the epoch. `state`: starting, unfinished, done, or why it cannot be read.

    `left running`: its workload was left to itself, and its time is not over; nobody need follow it.
    """

    run_id: str
    state: str
    suite: str = ""
    target: str = ""
    created_at: float | None = None
    finished_at: float | None = None
    verdict: str | None = None
    exit_code: int | None = None
    report: str | None = None
    took_s: float | None = None

    @property
    def duration_s(self) -> float | None:
        """How long its passes took together; None when it has not ended."""
        if self.took_s is not None or self.created_at is None or self.finished_at is None:
            return self.took_s
        return max(0.0, self.finished_at - self.created_at)  # of one that did not write its passes down


def past_runs(output: Folder) -> list[PastRun]:
    """Returns all runs of an output, the latest last. A folder that is no run is none; a broken run is told as one."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda name: _past_run(output, name), output.folders()))
    return sorted((run for run in found if run), key=lambda run: (run.created_at or 0.0, run.run_id))


def looked_into(output: Folder, runs: Sequence[PastRun]) -> list[PastRun]:
    """Returns the runs, as `damaged` those whose results had been collected and are gone or cut short."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda run: _looked_into(output, run), runs))


def _looked_into(output: Folder, run: PastRun) -> PastRun:
    try:
        hurt = torn(output.child(run.run_id)) if run.state == "done" else []
    except InfrastructureError as error:
        return replace(run, state=f"damaged: {error}")
    return replace(run, state=f"damaged: {hurt[0]}") if hurt else run


_AGAIN = "start it again, as you did: slicebench run"


def find_run(output: Folder, word: str) -> Folder:
    """Returns the folder of the run that `word` means: its id, a beginning that no other has, or `latest`.

    Raises BadInput, naming the nearest, when there is none or more than one.
    """
    if word == LATEST:
        runs = past_runs(output)
        if not runs:
            raise BadInput(
                f"there is no run in {output.uri}", fix="see --output, or start one: slicebench run"
            )
        return output.child(runs[-1].run_id)
    names = [name for name in output.folders() if name.startswith(word)] if word else []
    if word in names or len(names) == 1:
        name = word if word in names else names[0]
        if _past_run(output, name) is not None:
            return output.child(name)
        if killed := never_began(output.child(name)):
            raise BadInput(f"there is no run {name!r} in {output.uri}{killed}", fix=_AGAIN)
        names = []
    if names:
        raise BadInput(f"{word!r} could be any of {', '.join(names[:5])}", fix="write more of its id")
    raise BadInput(f"there is no run {word!r} in {output.uri}", fix=_nearest(output, word))


def _past_run(output: Folder, name: str) -> PastRun | None:
    folder = output.child(name)
    try:
        if not is_there(folder, REQUEST_FILE):
            if (asked := read_asked(folder)) is None:
                return None
            return PastRun(name, "starting", asked.suite_name, asked.target, asked.at)
        request, state = _object(folder, REQUEST_FILE), ""
        outcome: Mapping[str, Any] = {}
        try:
            outcome = _object(folder, OUTCOME_FILE)
        except InfrastructureError as error:
            state = f"damaged: {error}"
        return PastRun(
            run_id=name,
            state=state or ("done" if outcome else _unfinished(folder)),
            suite=str(request.get("suite_name", "")),
            target=str(request.get("target", "")),
            created_at=_number(request.get("created_at")),
            finished_at=_number(outcome.get("finished_at")),
            verdict=outcome.get("verdict"),
            exit_code=outcome.get("exit_code"),
            report=outcome.get("report"),
            took_s=_number(outcome.get("took_s")),
        )
    except InfrastructureError as error:
        return PastRun(name, f"damaged: {error}")


def _unfinished(folder: Folder) -> str:
    left = left_in(folder)
    return "left running" if left is not None and time.time() < left.until else "unfinished"


def _object(folder: Folder, name: str) -> Mapping[str, Any]:
    found = _json(folder, name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InfrastructureError(f"{name} is not a JSON object")
    return found


def _json(folder: Folder, name: str) -> Any:
    content = folder.read(name)
    try:
        return None if content is None else json.loads(content)
    except ValueError as error:
        raise InfrastructureError(f"{name} is not JSON: {error}") from error


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _nearest(output: Folder, word: str) -> str:
    names: Sequence[str] = [run.run_id for run in past_runs(output)]
    if not names:
        return "there are no runs: see --output"
    if near := difflib.get_close_matches(word, names, n=3):
        return f"did you mean {' or '.join(near)}?"
    return f"see {shlex.join(['slicebench', 'runs', *output_words(output.uri)])}"
