"""Whether a run that somebody wants to go on lacks anything at all. One that does not is left exactly as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.contract.errors import ExitCode
from runtime.contract.names import STAGES_FOLDER
from tasks.cloud.storage import Folder, read_json
from tasks.history.torn import torn
from tasks.history.verdict import VERDICTS_FILE
from tasks.stages.files import OUTCOME_FILE, REPORT_FILE

_NEEDED = ("run", "collect", "teardown")
"""Stages that leave something which a run that ended well has."""


def complete(folder: Folder) -> Mapping[str, Any] | None:
    """Returns outcome.json of a run that ended well and has everything; None when something is left to do.

    A regression is how a run ended well with numbers that are worse. Raises InfrastructureError when the storage
    fails; a damaged file is something left to do.
    """
    outcome = read_json(folder, OUTCOME_FILE)
    if not isinstance(outcome, dict) or outcome.get("exit_code") not in (ExitCode.DONE, ExitCode.REGRESSION):
        return None
    markers = {stage: read_json(folder, f"{STAGES_FOLDER}/{stage}.json") for stage in _NEEDED}
    if not all(isinstance(marker, dict) for marker in markers.values()):
        return None
    outputs = markers["collect"].get("outputs")
    if not isinstance(outputs, dict) or not outputs.get("whole"):
        return None
    judged = all(folder.read(name, -1) for name in (VERDICTS_FILE, REPORT_FILE))  # there, and not empty
    return outcome if judged and not torn(folder) else None
