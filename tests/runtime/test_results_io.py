"""The journal and its sealing: nothing that was written is lost, nothing half-written is read."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from runtime.contract.errors import BadInput, ExitCode, InfrastructureError
from runtime.contract.names import JOURNAL_FILE
from runtime.contract.results import (
    SAMPLE_COLUMNS,
    SCHEMA_VERSION,
    SCHEMA_VERSION_KEY,
    PointResult,
    PointStatus,
    Sample,
)
from runtime.results_io import Journal, main, seal
from tests.runtime.stand_in import NO_SAMPLES

ROOT = Path(__file__).parents[2]


def sample(value: float = 1.5, *, attempt: int = 1, worker: int = 0, repeat: int = 0) -> Sample:
    return Sample(
        "r", attempt, 0, "Bench", "abc", repeat, 0, worker, "save", "time_s", value, "s", False, 1e9
    )


def point(status: PointStatus = "passed", cause: str = "", *, index: int = 0, worker: int = 0) -> PointResult:
    return PointResult(
        "r",
        1,
        index,
        worker,
        "Bench",
        "abc",
        "x.Bench",
        "native",
        status,
        cause,
        3,
        {"a": 1},
    )


def write(path: Path, *records: Sample | PointResult) -> None:
    with Journal(path) as journal:
        for record in records:
            journal.append(record)


def test_reads_back_what_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "deep" / JOURNAL_FILE
    write(path, sample(1), point("failed", "it broke"), sample(2))
    assert list(Journal.read(path)) == [sample(1), point("failed", "it broke"), sample(2)]


def test_each_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL_FILE
    journal = Journal(path)
    journal.append(sample(1))
    assert list(Journal.read(path)) == [sample(1)]
    journal.close()
    journal.close()


def test_missing_journal_has_no_records(tmp_path: Path) -> None:
    assert list(Journal.read(tmp_path / JOURNAL_FILE)) == []


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_torn_last_line_is_ignored_and_later_cut_off(tmp_path: Path, kept: int) -> None:
    path = tmp_path / JOURNAL_FILE
    write(path, sample(1), sample(2))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:kept])
    assert list(Journal.read(path)) == [sample(1)]
    write(path, sample(3))
    assert list(Journal.read(path)) == [sample(1), sample(3)]


def test_torn_line_longer_than_a_block_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL_FILE
    write(path, sample(1))
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    write(path, sample(2))
    assert list(Journal.read(path)) == [sample(1), sample(2)]


def test_journal_that_is_one_torn_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL_FILE
    path.write_bytes(b'{"record": "sam')
    write(path, sample(2))
    assert list(Journal.read(path)) == [sample(2)]


@pytest.mark.parametrize("line", [b"[]\n", b"nonsense\n", b'{"record": "sample"}\n', b'{"record": "cow"}\n'])
def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / JOURNAL_FILE
    write(path, sample(1))
    path.write_bytes(path.read_bytes() + line)
    with pytest.raises(InfrastructureError, match=rf"{JOURNAL_FILE}:2"):
        list(Journal.read(path))


def test_newer_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL_FILE
    fields = {"record": "sample", "schema_version": SCHEMA_VERSION + 1, "unheard_of": 1}
    path.write_text(json.dumps(fields) + "\n")
    with pytest.raises(BadInput, match=f"schema version {SCHEMA_VERSION + 1}"):
        list(Journal.read(path))


def test_full_disk_is_told_and_the_rest_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / JOURNAL_FILE
    with Journal(path) as journal:
        journal.append(sample(1))
        real_write: Callable[[int, bytes], int] = os.write
        left = 30

        def write_until_full(fd: int, data: bytes) -> int:
            nonlocal left
            if left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = real_write(fd, data[:left])
            left -= written
            return written

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write_until_full)
            with pytest.raises(InfrastructureError, match=r"No space left.*free space"):
                journal.append(sample(2))
        journal.append(sample(3))
    assert list(Journal.read(path)) == [sample(1), sample(3)]


def test_device_that_is_full_is_told() -> None:
    with Journal(Path("/dev/full")) as journal, pytest.raises(InfrastructureError, match="/dev/full"):
        journal.append(sample())


def test_unwritable_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="cannot write"):
        Journal(tmp_path / "file" / JOURNAL_FILE)


def test_seal_keeps_every_value_and_type(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL_FILE, *(sample(float(i), repeat=i) for i in range(5)), point())
    samples_at, points_at = seal(tmp_path, str(tmp_path / "out"), 1, 0)
    table = pq.read_table(Path(samples_at))
    assert {
        field.name: str(field.type).replace("double", "float64") for field in table.schema
    } == SAMPLE_COLUMNS
    assert table.schema.metadata[SCHEMA_VERSION_KEY] == str(SCHEMA_VERSION).encode()
    assert table.to_pylist() == [dataclasses.asdict(sample(float(i), repeat=i)) for i in range(5)]
    (line,) = Path(points_at).read_text().splitlines()
    fields = json.loads(line)
    assert (fields["status"], fields["options"], fields["repeats_done"]) == ("passed", {"a": 1}, 3)


def test_sealed_file_is_one_line_of_pandas(tmp_path: Path) -> None:
    import pandas as pd

    write(tmp_path / JOURNAL_FILE, sample(1), sample(2))
    frame = pd.read_parquet(seal(tmp_path, str(tmp_path / "out"), 1, 0)[0])
    assert list(frame["value"]) == [1, 2]


def test_sealing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL_FILE, sample(), point())
    first = [Path(name).read_bytes() for name in seal(tmp_path, str(tmp_path / "out"), 1, 0)]
    second = [Path(name).read_bytes() for name in seal(tmp_path, str(tmp_path / "out"), 1, 0)]
    assert first == second
    names = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert len(names) == 3  # samples, points, one file of events: nothing temporary


def test_seal_takes_only_this_attempt_and_worker(tmp_path: Path) -> None:
    write(tmp_path / JOURNAL_FILE, sample(1), sample(2, attempt=2), sample(3, worker=1), point(worker=1))
    samples_at, points_at = seal(tmp_path, str(tmp_path / "out"), 1, 0)
    assert pq.read_table(Path(samples_at))["value"].to_pylist() == [1]
    assert Path(points_at).read_text() == ""


def test_last_result_of_a_point_stands(tmp_path: Path) -> None:
    write(
        tmp_path / JOURNAL_FILE,
        point("failed", "Connection closed"),
        point("failed", "ValueError"),
        point(index=1),
    )
    _, points_at = seal(tmp_path, str(tmp_path / "out"), 1, 0)
    results = [json.loads(line) for line in Path(points_at).read_text().splitlines()]
    assert [(result["point"], result["cause"]) for result in results] == [(0, "ValueError"), (1, "")]


def test_worker_that_measured_nothing_is_sealed_too(tmp_path: Path) -> None:
    samples_at, points_at = seal(tmp_path, str(tmp_path / "out"), 1, 0)
    nothing = pq.read_table(Path(samples_at))
    assert nothing.num_rows == 0
    assert Path(points_at).read_bytes() == b""
    of_stand_ins = pq.read_table(NO_SAMPLES)
    assert of_stand_ins.schema.equals(nothing.schema, check_metadata=True), "NO_SAMPLES is to be copied anew"
    assert of_stand_ins.num_rows == 0


def test_seal_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InfrastructureError, match="cannot write"):
        seal(tmp_path, str(tmp_path / "out"), 1, 0)


def test_seal_to_a_bucket_uploads_whole_files(tmp_path: Path, gcs_bucket: str) -> None:
    from etils import epath

    write(tmp_path / JOURNAL_FILE, sample(4))
    samples_at, points_at = seal(tmp_path, f"{gcs_bucket}/run", 1, 0)
    assert samples_at == f"{gcs_bucket}/run/results/samples-a1-w0000.parquet"
    assert epath.Path(samples_at).parent.joinpath("none.parquet").exists() is False
    (tmp_path / "copy").write_bytes(epath.Path(samples_at).read_bytes())
    assert pq.read_table(tmp_path / "copy")["value"].to_pylist() == [4]
    assert epath.Path(points_at).read_bytes() == b""
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_command_seals_and_tells_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / JOURNAL_FILE, sample())
    out = tmp_path / "out"
    command = ["seal", "--scratch", str(tmp_path), "--output", str(out), "--attempt", "1", "--worker", "0"]
    done = subprocess.run([sys.executable, "-m", "runtime.results_io", *command], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert pq.read_table(out / "results/samples-a1-w0000.parquet").num_rows == 1
    (tmp_path / JOURNAL_FILE).write_text("nonsense\n")
    assert main(command) == ExitCode.INFRASTRUCTURE
    assert "not a journal's record" in capsys.readouterr().err


def test_importing_is_light() -> None:
    heavy = "{'jax', 'numpy', 'pyarrow', 'yaml'}"
    code = f"import sys, runtime.measure, runtime.results_io; print(*({heavy} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == ""
