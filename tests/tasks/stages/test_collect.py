"""Collect gathers what arrived, tells what did not, and never makes anything up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runtime import results_io
from runtime.contract.errors import InfrastructureError
from runtime.contract.names import JOURNAL_FILE, points_file, samples_file
from runtime.contract.results import SAMPLE_COLUMNS, SCHEMA_VERSION_KEY
from tasks.history.reading import load_results
from tasks.history.results import TroubleKind
from tasks.history.torn import torn
from tasks.stages.collect import Results, collect
from tests.tasks.history.making import make_point, make_result, make_run, make_samples, parquet, write_parts

TWO_WORKERS = [[1.0, 2.0, 3.0], [1.5, 1.8, 3.5]]


def kinds(results: Results) -> list[TroubleKind]:
    return [trouble.kind for trouble in results.troubles]


@pytest.fixture(params=["local", "gs"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "local" else f"{request.getfixturevalue('gcs_bucket')}/runs"


def test_parts_become_one_file_and_a_marker(output: str) -> None:
    run = make_run(output)
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), make_result(1)])
    results = collect(run)
    assert (results.samples, results.passed, results.troubles) == (6, 1, [])
    assert run.marker("collect") is not None
    (measurement,) = results.measurements
    assert measurement.combined("max").tolist() == [1.5, 2.0, 3.5]
    assert results.fingerprint["host"] == "Imagined CPU"
    bucket = output.startswith("gs://")
    assert results.fingerprint["storage"] == ("gs STANDARD us-central1" if bucket else "ext4")
    reread = load_results(run.folder)
    assert reread is not None
    assert (reread.points, reread.fingerprint) == (results.points, results.fingerprint)
    assert collect(run).points == results.points


def test_machines_are_compared_where_they_were_really_had(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.__dict__["plan"] = replace(run.plan, machine={"type": "v6e-1", "region": "us-east5"})
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), make_result(1)])
    run.mark("provision", used=[{"zone": "us-east5-b"}, {"zone": "us-west4-a"}])
    assert collect(run).fingerprint["region"] == "us-west4"
    run.mark("provision", used=[{"zone": ""}])
    run.forget_from("collect")
    assert collect(run).fingerprint["region"] == "us-east5"


def test_pandas_reads_the_samples_in_one_line(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), make_result(1)])
    collect(run)
    frame = pd.read_parquet(tmp_path / "run-1" / "samples.parquet")
    assert list(frame.columns) == list(SAMPLE_COLUMNS)
    assert frame[frame.worker == 1].value.tolist() == TWO_WORKERS[1]


def test_a_worker_that_never_delivered_is_missed(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, make_samples(TWO_WORKERS[:1]), [make_result(0)])
    results = collect(run)
    assert kinds(results) == ["missing", "not_run"]
    assert "worker 1" in results.troubles[0].what
    (point,) = results.points
    assert (point.status, point.cause) == ("not_run", "worker 1: it reported nothing")


def test_nothing_at_all_is_not_green(tmp_path: Path) -> None:
    results = collect(make_run(tmp_path))
    assert kinds(results) == ["missing", "not_run"] or kinds(results) == ["missing"]
    assert results.passed == 0
    assert results.points[0].status == "not_run"


def test_a_point_passes_only_if_it_passed_everywhere(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    bad = make_result(1, status="failed", cause="restored leaf 'a' differs")
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), bad])
    (point,) = collect(run).points
    assert (point.status, point.cause) == ("failed", "worker 1: restored leaf 'a' differs")


@pytest.mark.parametrize(
    ("cause", "told"),
    [("no space", "workers 0, 1: no space"), ("worker 0: no checkpoint", "worker 0: no checkpoint")],
)
def test_what_failed_everywhere_is_told_once(tmp_path: Path, cause: str, told: str) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, [], [make_result(one, status="failed", cause=cause) for one in (0, 1)])
    (point,) = collect(run).points
    assert point.cause == told


def test_a_file_cut_short_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), make_result(1)])
    name = samples_file(1, 1)
    content = run.folder.read(name)
    assert content is not None
    run.folder.write(name, content[: len(content) // 2])
    results = collect(run)
    assert kinds(results) == ["damaged"]
    assert name in results.troubles[0].what
    assert results.samples == 3
    (point,) = results.points
    # Without the samples of one of two workers there is no slowest worker: nothing of it may be compared.
    assert (point.status, point.cause) == ("not_run", "worker 1: what it delivered is damaged")
    assert results.shortfall == "the benchmark is incomplete"


@pytest.mark.parametrize("name", [samples_file(1, 1), points_file(1, 1)])
def test_of_a_damaged_file_nothing_else_is_said_than_that(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    run = make_run(tmp_path, say=said.append)
    write_parts(run.folder, make_samples(TWO_WORKERS), [make_result(0), make_result(1)])
    run.folder.write(name, b"cut")
    collect(run)
    told = "\n".join(said)
    assert f"{name}: " in told and "0 of 1 benchmarks collected" in told
    assert "delivered no results" not in told and "reported nothing" not in told and "never run" not in told


def test_samples_cut_after_collecting_name_the_command_that_gathers_them_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples([[1.0]]), [make_result(0)])
    collect(run)
    run.folder.write("samples.parquet", b"PAR1")
    with pytest.raises(InfrastructureError) as refusal:
        load_results(run.folder)
    command = f"slicebench run --resume run-1 --from collect --output {tmp_path}"
    assert str(refusal.value) == f"{tmp_path}/run-1/samples.parquet is cut short: {command}"
    assert [str(one) for one in torn(run.folder)] == [str(refusal.value)], (
        "whoever only lists runs says the same"
    )
    run.folder.write("points.json", b"{")
    with pytest.raises(InfrastructureError, match=f"points.json is damaged .*: {command}$"):
        load_results(run.folder)
    assert len(torn(run.folder)) == 2
    assert collect(run).samples == 1, "a run that goes on gathers them again by itself"
    assert torn(run.folder) == []


def test_when_a_run_was_asked_for_is_kept(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples([[1.0]], started_at=5000.0), [make_result(0)])
    run.folder.write("request.json", b'{"created_at": 17.5}')
    results = collect(run)
    assert (results.asked_at, results.started_at, results.began_at) == (17.5, 5000.0, 17.5)


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples(TWO_WORKERS[:1]), [make_result(0)])
    table = pq.read_table(tmp_path / "run-1" / samples_file(1, 0))
    pq.write_table(
        table.replace_schema_metadata({SCHEMA_VERSION_KEY: b"99"}), tmp_path / "run-1" / samples_file(1, 0)
    )
    results = collect(run)
    assert kinds(results) == ["newer_schema"]
    assert "schema 99" in results.troubles[0].what


def test_samples_of_another_run_do_not_get_in(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples(TWO_WORKERS[:1]), [make_result(0)])
    run.folder.write(samples_file(1, 0), parquet(make_samples([[9.0]], run_id="run-0")))
    results = collect(run)
    assert kinds(results) == ["damaged"]
    assert results.samples == 0


def test_a_sample_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    samples = [*make_samples([[1.0, 2.0]]), *make_samples([[5.0]])]
    write_parts(run.folder, samples, [make_result(0)])
    results = collect(run)
    assert kinds(results) == ["duplicate"]
    assert results.measurements[0].combined("max").tolist() == [5.0, 2.0]


def test_the_latest_attempt_that_ran_a_point_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1, points=[make_point(0), make_point(1, "other")])
    first = [make_result(0), make_result(0, point=1, benchmark="other")]
    second = [
        make_result(0, attempt=2),
        make_result(0, point=1, benchmark="other", attempt=2, status="not_run"),
    ]
    samples = [
        *make_samples([[1.0]]),
        *make_samples([[2.0]], attempt=2),
        *make_samples([[3.0]], point=1, benchmark="other"),
    ]
    write_parts(run.folder, samples, [*first, *second])
    results = collect(run)
    assert [point.attempt for point in results.points] == [2, 1]
    assert [m.values.tolist() for m in results.measurements] == [[[2.0]], [[3.0]]]
    assert results.samples == 3


@pytest.mark.parametrize("content", [b"{", b"[]\n", b'{"record": "point"}\n', b"not json\n"])
def test_damaged_points_are_told(tmp_path: Path, content: bytes) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples([[1.0]]), [make_result(0)])
    run.folder.write(points_file(1, 0), content)
    results = collect(run)
    assert kinds(results)[0] == "damaged"
    assert results.points[0].status == "not_run"


def test_attempts_come_from_the_run_stage(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, make_samples([[1.0]]), [make_result(0)])
    run.folder.write("attempts.json", b'[{"n": 1, "ref": null, "end": "preempted", "cause": "spot"}]')
    (attempt,) = collect(run).attempts
    assert (attempt.n, attempt.end, attempt.cause) == (1, "preempted", "spot")
    stored = json.loads((tmp_path / "run-1" / "points.json").read_text())
    assert stored["attempts"] == [{"cause": "spot", "end": "preempted", "n": 1}]


def test_an_empty_part_is_no_trouble(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    write_parts(run.folder, [], [make_result(0, status="failed", cause="boom")])
    results = collect(run)
    assert (kinds(results), results.samples) == ([], 0)
    assert isinstance(pq.read_table(tmp_path / "run-1" / "samples.parquet"), pa.Table)


def test_what_a_worker_seals_is_what_collect_reads(tmp_path: Path) -> None:
    run = make_run(tmp_path, workers=1)
    scratch = tmp_path / "scratch"
    with results_io.Journal(scratch / JOURNAL_FILE) as journal:
        journal.extend([*make_samples([[1.0, 2.0]]), make_result(0)])
    results_io.seal(scratch, run.folder.uri, 1, 0)
    results = collect(run)
    assert (results.samples, results.passed, results.troubles) == (2, 1, [])
    assert results.measurements[0].combined("max").tolist() == [1.0, 2.0]
