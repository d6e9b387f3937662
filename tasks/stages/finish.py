"""The end of a run: one file that says how it went, and the exit code that follows from it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from runtime.contract.errors import ExitCode, worst
from tasks.stages.context import Run
from tasks.stages.files import OUTCOME_FILE


def finish(
    run: Run, codes: Sequence[ExitCode], causes: Sequence[str], verdict: str | None, report: str | None
) -> ExitCode:
    """Writes outcome.json and returns the run's exit code: the first that applies of `codes`.

    `causes` are the reasons of what went wrong, the root first; `report` is where the report lies.
    """
    code = worst(codes)
    outcome = {
        "run_id": run.spec.run_id,
        "suite": run.spec.suite_name,
        "target": run.spec.target_name,
        "exit_code": int(code),
        "verdict": verdict,
        "causes": list(causes),
        "report": report,
        "finished_at": time.time(),
    }
    run.folder.write(OUTCOME_FILE, json.dumps(outcome, indent=1, sort_keys=True).encode())
    return code
