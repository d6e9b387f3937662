"""The end of a run: one file that says how it went, and the exit code that follows from it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runtime.contract.errors import ExitCode, Trouble, worst
from tasks.leases.outcome import End, write_outcome
from tasks.stages.context import Run


def finish(
    run: Run,
    codes: Sequence[ExitCode],
    causes: Sequence[str],
    verdict: str | None,
    report: str | None,
    trouble: Trouble | None = None,
) -> ExitCode:
    """Writes outcome.json and returns the run's exit code: the first that applies of `codes`.

    `causes` are the reasons of what went wrong, the root first; `report` is where the report lies; `trouble` is the
    kind of what went wrong, where another place may not have it.
    """
    code = worst(codes)
    spec = run.spec
    about = {
        "run_id": spec.run_id,
        "suite": spec.suite_name,
        "target": spec.target_name,
        "left_out": spec.told_left_out,
    }
    write_outcome(run.folder, about, End(code, causes, time.time(), verdict, report, trouble), replace=True)
    return code
