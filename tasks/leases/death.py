"""What a run that was killed can no longer say: whoever finds its lease writes how it ended into its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runtime.contract.errors import ExitCode, SlicebenchError
from runtime.contract.names import STAGES, STAGES_FOLDER
from tasks.cloud.storage import Folder, is_there, open_folder
from tasks.config.commands import resume
from tasks.leases import owner as owners
from tasks.leases.lease import Lease, Owner, State
from tasks.leases.left import Left, left_in
from tasks.leases.outcome import OUTCOME_FILE, REQUEST_FILE, End, began_after, last_word_at, write_outcome


def record_death(lease: Lease, *, given_back: bool = False) -> str:
    """Writes the outcome of a lease's run where that process is dead and left none; returns what was told.

    `lease` is as it was before anybody released it. A run that left its workload to itself is not dead until that is
    `given_back`. Empty when there was nothing to tell: a run that lives tells
    itself, and what is told already stays. A storage that fails is told in the answer and raises nothing, for it
    must keep no hardware from going back.
    """
    if not lease.folder or lease.run_id is None or lease.held_by is None:
        return ""
    alive = owners.is_alive(lease.held_by)
    # Elsewhere, a lease that was given back in good order says nothing about the run's life.
    lives = bool(alive) or (alive is None and lease.state is State.GONE)
    try:
        folder = open_folder(lease.folder)
        left = left_in(folder) if lease.owner is None else None
        if lives if left is None else not given_back:
            return ""
        return _tell(folder, lease, lease.held_by, left)
    except SlicebenchError as error:
        return f"how its run ended could not be written to {lease.folder}: {error}"


def _tell(folder: Folder, lease: Lease, holder: Owner, left: Left | None) -> str:
    request = _object(folder.read(REQUEST_FILE))
    # A folder that is gone, or that cannot be seen from here, is not made anew.
    if request is None or is_there(folder, OUTCOME_FILE):
        return ""
    # What was made beside the run has a lease of its own: its maker died, and the run may go on in another process.
    if lease.name != lease.run_id and began_after(folder, lease.renewed_at):
        return ""
    stage, last_mark = _place(folder)
    cause = _cause(holder, stage)
    if left is not None:
        cause = (
            f"nobody came back for JobSet {left.name} until it was given back; what it had written by then is in "
            f"the run's folder: {resume(folder.uri)} collects it, and measures what is missing"
        )
    about = {
        "run_id": str(lease.run_id),
        "suite": str(request.get("suite_name", "")),
        "target": str(request.get("target", "")),
    }
    end = End(ExitCode.INFRASTRUCTURE, [cause], max(lease.renewed_at, last_mark, last_word_at(folder)))
    return cause if write_outcome(folder, about, end, replace=False) else ""


def _cause(holder: Owner, stage: str) -> str:
    """Says what is known of a process's end: that it is gone, that its machine is, or only that it fell silent."""
    process = f"slicebench's process {holder.pid} on {holder.host}"
    if owners.is_of_another_boot(holder):
        return f"{process} ended {stage}, when that machine was restarted"
    if owners.is_alive(holder) is None:
        return f"{process} fell silent {stage}: it was killed, or its machine was cut off or stopped"
    return f"{process} was killed {stage}"


def _place(folder: Folder) -> tuple[str, float]:
    """Returns when in the pipeline it was, in words, and when its last finished stage had finished; 0: none had."""
    finished_at = 0.0
    for stage in STAGES:
        marker = _object(folder.read(f"{STAGES_FOLDER}/{stage}.json"))
        if marker is None:
            return f"during {stage.upper()}", finished_at
        finished_at = max(finished_at, float(marker.get("finished_at") or 0.0))
    return f"after {STAGES[-1].upper()}, in compare or report", finished_at


def _object(content: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(content or b"null")
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else None
