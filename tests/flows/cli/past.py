"""Runs that ended in every way, for the commands that look back."""

from __future__ import annotations

import json
from pathlib import Path

from tasks.stages.collect import collect
from tasks.stages.compare import compare
from tasks.stages.report import report
from tests.tasks.history.making import make_result, make_run, make_samples, write_parts


def leave_run(output: Path, run_id: str, created_at: float, *, ended: bool = True, logs: bool = True) -> Path:
    """Leaves a run of two workers in an output; returns its folder."""
    leave_run_at(str(output), run_id, created_at, ended=ended, logs=logs)
    return output / run_id


def leave_run_at(
    output: str, run_id: str, created_at: float, *, ended: bool = True, logs: bool = True
) -> None:
    """Does the same in an output that may be gs://."""
    run = make_run(output, run_id=run_id)
    request = {"request": {}, "suite_name": "quickstart", "target": "local", "created_at": created_at}
    run.folder.write("request.json", json.dumps(request).encode())
    if logs:
        for worker in (0, 1):
            run.folder.write(f"logs/worker-{worker:04d}.log", f"hello from {worker}\nbye\x1b[2J\n".encode())
            run.folder.write(f"logs/.worker-{worker:04d}.log.cursor", b"{}")
    if ended:
        samples = make_samples([[1.0, 2.0], [1.5, 1.8]], run_id=run_id, started_at=created_at)
        write_parts(run.folder, samples, [make_result(0, run_id=run_id), make_result(1, run_id=run_id)])
        collect(run)
        verdicts = compare(run)
        outcome = {
            "run_id": run_id,
            "exit_code": 0,
            "verdict": verdicts.overall.value,
            "causes": [],
            "report": report(run),
            "finished_at": created_at + 61.5,
        }
        run.folder.write("outcome.json", json.dumps(outcome).encode())
