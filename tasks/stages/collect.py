"""Stage *collect*: what the workers wrote becomes samples.parquet and points.json, and what is missing is told."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.contract.counting import counted
from runtime.contract.errors import Problem
from runtime.contract.names import RESULTS_FOLDER
from runtime.contract.record import record_of
from runtime.contract.results import SCHEMA_VERSION, PointResult
from tasks.cloud.bucket_kind import bucket_kind
from tasks.cloud.google_place import region_of
from tasks.cloud.storage import read_json
from tasks.history.fingerprint import fingerprint
from tasks.history.outcomes import point_outcomes, troubles_of
from tasks.history.reading import attempts_of, load_results
from tasks.history.results import POINTS_FILE, SAMPLES_FILE, AttemptEnd, PointOutcome, Results, Trouble
from tasks.history.samples import Damaged, NewerSchema, join_parts, measurements, read_part, to_parquet
from tasks.history.torn import torn
from tasks.stages.attempts import Started, read_attempts
from tasks.stages.context import Run
from tasks.stages.files import REQUEST_FILE
from tasks.stages.recovery import recovery_samples

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Results", "collect"]

_PART = re.compile(r"(samples|points|manifest)-a(\d+)-w(\d+)\.(?:parquet|jsonl|json)")


@dataclasses.dataclass
class Parts:
    """What lay in the results folder; each list or mapping by (attempt, worker)."""

    samples: list[pa.Table] = dataclasses.field(default_factory=list)
    points: dict[tuple[int, int], list[PointResult]] = dataclasses.field(default_factory=dict)
    manifests: dict[tuple[int, int], Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    troubles: list[Trouble] = dataclasses.field(default_factory=list)
    unreadable: set[tuple[int, int]] = dataclasses.field(default_factory=set)


def collect(run: Run) -> Results:
    """Gathers all parts of all attempts. A part that cannot be read is a trouble that is told, never a guess.

    Returns what it wrote before when the stage has finished already, unless a disk that was full cut that short.
    """
    if (
        run.marker("collect") is not None
        and not torn(run.folder)
        and (done := load_results(run.folder)) is not None
    ):
        return done
    missed = [Trouble("not_fetched", str(problem)) for problem in bring_home(run)]
    results, table = _gather(run)
    results = dataclasses.replace(results, troubles=[*missed, *results.troubles])
    run.folder.write(SAMPLES_FILE, to_parquet(table))
    run.folder.write(POINTS_FILE, results.to_json().encode())
    for trouble in results.troubles:
        run.say(trouble.what)
    run.say(
        f"{counted(results.samples, 'sample')} of {results.passed} of {len(results.points)} benchmarks collected"
    )
    whole = results.passed == len(results.points) and not any(
        trouble.kind in ("missing", "damaged") for trouble in results.troubles
    )
    run.mark(
        "collect",
        samples=results.samples,
        passed=results.passed,
        points=len(results.points),
        whole=whole,
    )
    return results


def bring_home(run: Run) -> list[Problem]:
    """Brings home what the attempts' workers wrote elsewhere; returns what could not be brought."""
    refs = [one.ref for one in read_attempts(run) if one.ref is not None]
    places = {ref.output: ref for ref in refs}  # attempts write into one folder
    return [problem for ref in places.values() for problem in run.target.fetch(ref, run.folder)]


def _gather(run: Run) -> tuple[Results, pa.Table]:
    parts = read_parts(run)
    table, repeated = join_parts(parts.samples)
    if repeated:
        parts.troubles.append(
            Trouble("duplicate", f"{counted(repeated, 'sample')} came twice; what came later counts")
        )
    started_as = read_attempts(run)
    if told := recovery_samples(run, started_as, table):
        table, _ = join_parts([table, *told])
    plan = run.plan
    points = point_outcomes(run.spec.points, parts.points, plan.workers, parts.unreadable)
    latest = max((attempt for attempt, _ in parts.manifests), default=0)
    manifests = [manifest for (attempt, _), manifest in sorted(parts.manifests.items()) if attempt == latest]
    limits: list[Mapping[str, Any]] = [
        {**known, "worker": worker, "host": _host(manifest)}
        for (attempt, worker), manifest in sorted(parts.manifests.items())
        if attempt == latest and isinstance(known := manifest.get("limits"), Mapping)
    ]
    started = table.column("started_at").to_pylist()
    results = Results(
        run_id=run.spec.run_id,
        suite=run.spec.suite_name,
        target=run.spec.target_name,
        workers=plan.workers,
        points=points,
        left_out=run.spec.told_left_out,
        troubles=[
            *(each for each in parts.troubles if _matters(each, points, started_as)),
            *troubles_of(points, set(parts.points) | parts.unreadable, plan.workers),
        ],
        attempts=[AttemptEnd(one.n, one.end or "unknown", one.cause) for one in started_as],
        fingerprint=fingerprint(
            manifests,
            workers=plan.workers,
            slices=plan.slices,
            output=run.spec.output,
            machine=_machine(run),
            bucket=bucket_kind(run.folder),
        ),
        limits=limits,
        # Its points and limits are those above, which are told as all workers know them.
        manifest={
            name: told for name, told in (manifests or [{}])[0].items() if name not in ("points", "limits")
        },
        samples=len(table),
        asked_at=_asked_at(run),
        started_at=min(started, default=None),
        collected_at=time.time(),
        measurements=measurements(table, attempts_of(points)),
    )
    return results, table


def _machine(run: Run) -> Mapping[str, str]:
    """Returns what the target says of its machines; in the region of those that were really had."""
    told, zone = dict(run.plan.machine), ""
    marker = run.marker("provision")
    if told and marker is not None:
        with run.reading("provision"):
            used = marker["outputs"].get("used") or [{}]
            zone = str(used[-1].get("zone", ""))
    return {**told, "region": region_of(zone)} if zone else told


def _host(manifest: Mapping[str, Any]) -> str:
    host = manifest.get("host")
    return str(host.get("hostname", "")) if isinstance(host, Mapping) else ""


def _matters(trouble: Trouble, points: Sequence[PointOutcome], attempts: Sequence[Started]) -> bool:
    """Says whether a trouble touches what counts: not once all that its attempt ran was run again later."""
    if trouble.attempt is None:
        return True
    ran = next((one.points for one in attempts if one.n == trouble.attempt), None)
    counts = attempts_of(points)
    numbers = ran if ran is not None else [point.point for point in points]
    return any(counts.get(number, 0) <= trouble.attempt for number in numbers)


def read_parts(run: Run) -> Parts:
    """Reads all that the workers of all attempts delivered; what cannot be read is a trouble."""
    parts = Parts()
    for name in run.folder.names(RESULTS_FOLDER):
        match = _PART.fullmatch(name.removeprefix(f"{RESULTS_FOLDER}/"))
        content = run.folder.read(name) if match else None
        if match is None or content is None:
            continue
        kind, attempt, worker = match[1], int(match[2]), int(match[3])
        try:
            _add(parts, run.spec.run_id, kind, (attempt, worker), content)
        except (Damaged, NewerSchema) as error:
            if kind != "manifest":
                parts.unreadable.add((attempt, worker))
            if isinstance(error, NewerSchema):
                parts.troubles.append(Trouble("newer_schema", f"{name}: {error}", attempt, worker))
                continue
            whose = f"{kind} of worker {worker} in attempt {attempt}"
            parts.troubles.append(
                Trouble("damaged", f"{name}: {whose} cannot be read: {error}", attempt, worker)
            )
    return parts


def _add(parts: Parts, run_id: str, kind: str, of: tuple[int, int], content: bytes) -> None:
    if kind == "samples":
        parts.samples.append(_own(read_part(content), run_id, of))
    elif kind == "points":
        parts.points[of] = list(_read_points(content, run_id))
    else:
        parts.manifests[of] = _read_json(content)


def _asked_at(run: Run) -> float | None:
    """Returns when the run was asked for, as its request says; None when that cannot be read."""
    request = read_json(run.folder, REQUEST_FILE)
    asked = request.get("created_at") if isinstance(request, dict) else None
    return float(asked) if isinstance(asked, int | float) else None


def _own(table: pa.Table, run_id: str, of: tuple[int, int]) -> pa.Table:
    """Returns the table when every sample is of this run and of the worker whose name the file bears."""
    for name, expected in (("run_id", run_id), ("attempt", of[0]), ("worker", of[1])):
        others = set(table.column(name).unique().to_pylist()) - {expected}
        if others:
            raise Damaged(
                f"holds samples of {name} {sorted(others)[0]!r}, not {expected!r}: a file of another run?"
            )
    return table


def _read_points(content: bytes, run_id: str) -> Iterator[PointResult]:
    lines = content.splitlines(keepends=True)
    for line in lines:
        if not line.endswith(b"\n"):
            raise Damaged("its last line is torn")
        fields = _read_json(line)
        version = fields.get("schema_version", SCHEMA_VERSION)
        if version > SCHEMA_VERSION:
            raise NewerSchema(f"schema {version}, this slicebench knows {SCHEMA_VERSION}: upgrade it")
        try:
            result = record_of(PointResult, fields)
        except TypeError as error:
            raise Damaged(str(error)) from error
        if result.run_id != run_id:
            raise Damaged(f"tells of run {result.run_id!r}")
        yield result


def _read_json(content: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(content)
    except ValueError as error:
        raise Damaged(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise Damaged("not a JSON object")
    return fields
