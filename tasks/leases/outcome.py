"""How a run ended and how long it took, in its folder: written by the run or, once that was killed, in its stead."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime.contract.errors import ExitCode, Trouble
from tasks.cloud.storage import Folder, read_json

REQUEST_FILE = "request.json"
"""What was asked for: a folder that has it is a run."""

OUTCOME_FILE = "outcome.json"
"""How the run ended: exit code, verdict and causes. There is none while a pass goes on."""

RUN_LOG = "run.log"
"""Every line that the run says, each with its time."""

PASSES_FILE = "passes.json"
"""When each pass began and ended: a run that is resumed takes several, with dead time between them."""


@dataclass(frozen=True)
class End:
    """How a pass ended. `causes`: the root first; `report` is where it lies; `at` in seconds since the epoch.

    `trouble`: its kind, where another place may not have it.
    """

    code: ExitCode
    causes: Sequence[str]
    at: float
    verdict: str | None = None
    report: str | None = None
    trouble: Trouble | None = None


def begin_pass(folder: Folder, now: float) -> None:
    """Writes down that a pass begins, and takes back how the one before ended: the run goes on."""
    outcome = read_json(folder, OUTCOME_FILE)
    finished_at = outcome.get("finished_at") if isinstance(outcome, Mapping) else None
    passes = _passes(folder)
    if not passes and finished_at is not None:  # of a slicebench that did not write passes down
        request = read_json(folder, REQUEST_FILE)
        created_at = request.get("created_at") if isinstance(request, Mapping) else None
        passes = [{"began_at": created_at or finished_at, "ended_at": finished_at}]
    # Of one that was never told to have ended it is known that it began, and what it said last.
    ended_at = last_word_at(folder, now) if finished_at is None else finished_at
    passes = [_closed(one, ended_at) for one in passes]
    _write(folder, PASSES_FILE, [*passes, {"began_at": now, "ended_at": None}])
    folder.delete(OUTCOME_FILE)


def end_pass(folder: Folder, now: float) -> None:
    """Writes down that a pass is over and the run is not: somebody will come back for it."""
    if passes := _passes(folder):
        _write(folder, PASSES_FILE, [_closed(one, now) for one in passes])


def between_passes(folder: Folder) -> bool:
    """Says whether the latest pass is over, as far as is known."""
    passes = _passes(folder)
    return bool(passes) and passes[-1]["ended_at"] is not None


def pass_began_at(folder: Folder) -> float | None:
    """Returns when the latest pass began, in seconds since the epoch; None where none did, as far as is known."""
    passes = _passes(folder)
    return passes[-1]["began_at"] if passes else None


def began_after(folder: Folder, at: float) -> bool:
    """Says whether the latest pass began after that time, and nobody saw it end."""
    passes = _passes(folder)
    return bool(passes) and passes[-1]["ended_at"] is None and passes[-1]["began_at"] > at


def last_word_at(folder: Folder, before: float = math.inf) -> float:
    """Returns when the run said something for the last time, in seconds since the epoch; 0 where it never did."""
    for line in reversed((folder.read(RUN_LOG) or b"").decode(errors="replace").splitlines()):
        try:
            at = datetime.fromisoformat(line.partition(" ")[0]).timestamp()
        except ValueError:
            continue
        if at < before:
            return at
    return 0.0


def write_outcome(folder: Folder, about: Mapping[str, Any], end: End, *, replace: bool) -> bool:
    """Writes how the run ended beside what it is `about` (run_id, suite, target); returns whether that was done.

    Without `replace` an outcome that is there stays. Raises InfrastructureError when the storage fails.
    """
    passes = [_closed(one, end.at) for one in _passes(folder)]
    outcome = {
        **about,
        "exit_code": int(end.code),
        "verdict": end.verdict,
        "causes": list(end.causes),
        "trouble": end.trouble,
        "report": end.report,
        "finished_at": end.at,
        "took_s": sum(one["ended_at"] - one["began_at"] for one in passes) if passes else None,
    }
    text = json.dumps(outcome, indent=1, sort_keys=True).encode()
    if replace:
        folder.write(OUTCOME_FILE, text)
    elif not folder.create(OUTCOME_FILE, text):
        return False
    # Killed in between, the next pass closes this one by the outcome's time.
    if passes:
        _write(folder, PASSES_FILE, passes)
    return True


def _closed(one: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Returns the pass with an end; time never runs backwards."""
    return {**one, "ended_at": max(one["began_at"], at) if one["ended_at"] is None else one["ended_at"]}


def _passes(folder: Folder) -> list[Mapping[str, Any]]:
    """Returns the passes so far. They say how long a run took and no more: a damaged file is none."""
    found = read_json(folder, PASSES_FILE)
    rows = found if isinstance(found, list) else []
    return [one for one in rows if isinstance(one, dict) and {"began_at", "ended_at"} <= one.keys()]


def _write(folder: Folder, name: str, content: Any) -> None:
    folder.write(name, json.dumps(content, indent=1, sort_keys=True).encode())
