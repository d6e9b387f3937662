"""Makes results the way a run leaves them, for tests: samples, points and folders with literal numbers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from runtime.contract.job import Deadlines
from runtime.contract.names import manifest_file, points_file, samples_file
from runtime.contract.results import PointResult, PointStatus, Sample
from runtime.contract.suite import CheckpointSpec, Point
from tasks.cloud.storage import Folder, open_folder
from tasks.config.spec import RunSpec, SourceSpec
from tasks.config.target import LocalTargetConfig
from tasks.history.samples import schema, to_parquet
from tasks.stages.context import Run
from tasks.targets.types import Plan

MIB = 2**20
MANIFEST: dict[str, object] = {
    "devices": {"platform": "cpu", "kind": "cpu", "count": 4, "local_count": 2},
    "host": {"hostname": "here", "cpu_model": "Imagined CPU", "cpu_usable": 2},
    "output": {"file_system": "ext4"},
    "versions": {"jax": "0.10.2", "orbax-checkpoint": "0.12.8", "python": "3.11.7"},
    "source": {"commit": "unknown"},
    "environment": {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
}


def make_point(index: int = 0, benchmark: str = "tiny") -> Point:
    return Point(
        index=index,
        benchmark=benchmark,
        key=f"key-{benchmark}",
        generator="PyTreeCheckpointBenchmark",
        implementation="native",
        options={"async_enabled": True},
        mesh=None,
        checkpoint=CheckpointSpec(),
    )


def make_samples(
    values: Sequence[Sequence[float]],
    *,
    run_id: str = "run-1",
    point: int = 0,
    benchmark: str = "tiny",
    operation: str = "save",
    metric: str = "time_s",
    unit: str = "s",
    warmups: int = 0,
    attempt: int = 1,
    started_at: float = 1000.0,
) -> list[Sample]:
    """Makes samples from values[worker][repeat]; the first `warmups` repeats are warm-up."""
    return [
        Sample(
            run_id=run_id,
            attempt=attempt,
            point=point,
            benchmark=benchmark,
            benchmark_key=f"key-{benchmark}",
            repeat=repeat,
            occurrence=0,
            worker=worker,
            operation=operation,
            metric=metric,
            value=value,
            unit=unit,
            warmup=repeat < warmups,
            started_at=started_at + repeat,
        )
        for worker, row in enumerate(values)
        for repeat, value in enumerate(row)
    ]


def make_result(
    worker: int = 0,
    *,
    run_id: str = "run-1",
    point: int = 0,
    benchmark: str = "tiny",
    status: PointStatus = "passed",
    cause: str = "",
    blamed: int | None = None,
    attempt: int = 1,
) -> PointResult:
    return PointResult(
        run_id=run_id,
        attempt=attempt,
        point=point,
        worker=worker,
        benchmark=benchmark,
        benchmark_key=f"key-{benchmark}",
        generator="PyTreeCheckpointBenchmark",
        implementation="native",
        status=status,
        cause=cause,
        blamed=blamed,
        repeats_done=3,
        options={"async_enabled": True},
    )


def parquet(samples: Iterable[Sample]) -> bytes:
    import pyarrow as pa

    rows = [dataclasses.asdict(sample) for sample in samples]
    return to_parquet(pa.Table.from_pylist(rows, schema=schema()))


def write_parts(
    folder: Folder,
    samples: Iterable[Sample],
    results: Iterable[PointResult],
    manifest: dict[str, object] = MANIFEST,
) -> None:
    """Writes what workers would: one samples, points and manifest file per attempt and worker."""
    measured: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        measured.setdefault((sample.attempt, sample.worker), []).append(sample)
    told: dict[tuple[int, int], list[PointResult]] = {}
    for result in results:
        told.setdefault((result.attempt, result.worker), []).append(result)
    for part in measured.keys() | told.keys():
        folder.write(samples_file(*part), parquet(measured.get(part, [])))
        lines = [
            json.dumps({"record": "point", "schema_version": 1, **dataclasses.asdict(result)}) + "\n"
            for result in told.get(part, [])
        ]
        folder.write(points_file(*part), "".join(lines).encode())
        folder.write(manifest_file(*part), json.dumps(manifest).encode())


class PlannedTarget:
    """A target that only plans."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def plan(self, spec: RunSpec) -> Plan:
        return Plan("local", (), self.workers, 1, 2, "cpu")


def make_run(
    output: Path | str,
    *,
    run_id: str = "run-1",
    points: Sequence[Point] | None = None,
    workers: int = 2,
    say: Callable[[str], None] = lambda line: None,
) -> Run:
    spec = RunSpec(
        run_id=run_id,
        suite_name="quickstart",
        suite_path="configs/suites/quickstart.yaml",
        suite_text="suite_name: quickstart\n",
        points=[make_point()] if points is None else points,
        num_repeats=3,
        target_name="local",
        target=LocalTargetConfig(kind="local", workers=workers),
        source=SourceSpec(),
        output=str(output),
        keep="never",
        deadlines=Deadlines(),
    )
    folder = open_folder(str(output)).child(run_id)
    return Run(spec=spec, folder=folder, target=PlannedTarget(workers), say=say)  # type: ignore[arg-type]
