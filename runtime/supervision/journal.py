"""Writes down what a worker could not: points that failed with it or were never reached, and its sealed results."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.contract.job import LEASE_VARIABLE, Job
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.progress import PointPhase, parse
from runtime.contract.redaction import Redaction
from runtime.contract.results import PointResult, PointStatus
from runtime.results_io import Journal
from runtime.supervision.verdict import is_consequence
from runtime.supervision.worker import SESSION_VARIABLE


@dataclass(frozen=True)
class Ruling:
    """What the supervisors say of a point; fields as in PointResult."""

    status: PointStatus
    cause: str
    blamed: int | None = None


def recorded(job: Job) -> dict[int, PointResult]:
    """Returns the results that this worker's journal holds for this attempt, by point."""
    found: dict[int, PointResult] = {}
    for record in Journal.read(Path(job.scratch, JOURNAL_FILE)):
        if isinstance(record, PointResult) and (record.attempt, record.worker) == (job.attempt, job.worker):
            found[record.point] = record
    return found


def write_down(job: Job, judged: Mapping[int, Ruling], said: Mapping[int, PointPhase]) -> int:
    """Appends a result for each point that has none, or only the echo of a neighbour's failure.

    `judged` is by point, as is `said`: how the worker described those that it began.
    Returns how many were written. Raises InfrastructureError when the journal cannot be read or written.
    """
    known = recorded(job)
    results = [
        _result(job, point, ruling, said.get(point), known.get(point))
        for point, ruling in sorted(judged.items())
        if point not in known or _gives_way(known[point], ruling)
    ]
    if results:
        with Journal(Path(job.scratch, JOURNAL_FILE)) as journal:
            journal.extend(results)
    return len(results)


def _gives_way(known: PointResult, ruling: Ruling) -> bool:
    """Whether what the worker wrote of a point is less than what is known now."""
    if known.paused:
        return ruling.status == "failed"
    return known.status == "failed" and is_consequence(known.cause)


def seal(job: Job, label: str, limit_s: float) -> str:
    """Has the worker's Python seal the journal into the run's folder. Returns nothing, or why it did not."""
    arguments = ["-m", "runtime.results_io", "seal", "--scratch", job.scratch, "--output", job.output]
    arguments += ["--attempt", str(job.attempt), "--worker", str(job.worker)]
    code, said = _run(job, arguments, label, limit_s)
    if code == 0:
        return ""
    lines = said.strip().splitlines()
    why = (
        f"took longer than {limit_s:g} s"
        if code is None
        else f"failed: {lines[-1] if lines else f'code {code}'}"
    )
    return f"sealing the results {why}; they are still in {job.scratch}"


def all_points(job: Job, label: str, limit_s: float) -> dict[int, PointPhase]:
    """Returns the points of the job's suite as they would begin; nothing when the suite cannot be read."""
    _, said = _run(job, ["-m", "runtime.supervision.points", job.suite], label, limit_s)
    found: dict[int, PointPhase] = {}
    for line in said.splitlines():
        with contextlib.suppress(ValueError):
            body = parse(line)
            if isinstance(body, PointPhase):
                found[body.point] = body
    return found


def _run(job: Job, arguments: list[str], label: str, limit_s: float) -> tuple[int | None, str]:
    """Runs the worker's Python; returns its exit code, None when it took too long, and what it wrote, redacted."""
    command = [
        sys.executable,
        "-S",
        "-m",
        "runtime.supervision.launch",
        str(os.getpid()),
        job.python,
        *arguments,
    ]
    given = {**os.environ, **job.env}
    labels = {"PYTHONPATH": job.code, LEASE_VARIABLE: job.lease_id, SESSION_VARIABLE: label}
    try:
        done = subprocess.run(
            command,
            env={**given, **labels},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, Redaction.of_environment(given)(done.stdout.decode("utf-8", "replace"))


def _result(
    job: Job, point: int, judged: Ruling, said: PointPhase | None, known: PointResult | None
) -> PointResult:
    if known is not None:
        return replace(known, status=judged.status, cause=judged.cause, blamed=judged.blamed, paused=False)
    said = said or PointPhase("begin", point, 0)
    return PointResult(
        run_id=job.run_id,
        attempt=job.attempt,
        point=point,
        worker=job.worker,
        benchmark=said.benchmark,
        benchmark_key=said.key,
        generator=said.generator,
        implementation=said.implementation,
        status=judged.status,
        cause=judged.cause,
        blamed=judged.blamed,
        options=said.options or {},
        mesh=said.mesh,
        checkpoint=said.checkpoint,
        disruption=said.disruption,
    )
