"""Compare finds earlier runs in the same output, whatever else lies there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.contract.errors import InfrastructureError
from tasks.history.reading import load_verdicts
from tasks.history.verdict import Verdict
from tasks.stages.collect import collect
from tasks.stages.compare import compare
from tests.tasks.history.making import make_result, make_run, make_samples, write_parts


def leave_run(output: Path, n: int, value: float = 1.0) -> None:
    run_id = f"run-{n}"
    run = make_run(output, run_id=run_id, workers=1)
    samples = make_samples([[value, value * 1.02, value * 0.98]], run_id=run_id, started_at=1000.0 * n)
    write_parts(run.folder, samples, [make_result(0, run_id=run_id)])
    collect(run)


def test_the_first_run_has_no_baseline(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    said: list[str] = []
    verdicts = compare(make_run(tmp_path, workers=1, say=said.append))
    assert verdicts.overall is Verdict.NO_BASELINE
    assert said == ["verdict: NO_BASELINE (no earlier run to compare with)"]
    assert load_verdicts(make_run(tmp_path).folder) == verdicts


def test_history_grows_until_it_suffices(tmp_path: Path) -> None:
    found = []
    for n in range(1, 11):
        leave_run(tmp_path, n, 1.0 + 0.01 * (n % 3))
        found.append(compare(make_run(tmp_path, run_id=f"run-{n}", workers=1)))
    assert [one.overall for one in found[:8]] == [Verdict.NO_BASELINE] + [Verdict.INCONCLUSIVE] * 7
    assert {one.overall for one in found[8:]} <= {Verdict.PASS, Verdict.INCONCLUSIVE}
    assert found[9].baseline == [f"run-{n}" for n in range(9, 0, -1)]


def test_broken_neighbours_are_told_and_do_not_stop_it(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    leave_run(tmp_path, 2)
    leave_run(tmp_path, 3)
    (tmp_path / "run-1" / "samples.parquet").write_bytes(b"PAR1")
    (tmp_path / "run-0").mkdir()
    (tmp_path / "run-0" / "points.json").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    verdicts = compare(make_run(tmp_path, run_id="run-3", workers=1))
    assert verdicts.baseline == ["run-2"]
    assert [text.split(":")[0].rsplit("/", 2)[1] for text in verdicts.not_comparable] == ["run-0", "run-1"]


def test_a_renamed_copy_is_not_a_second_baseline(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    leave_run(tmp_path, 2)
    copy = tmp_path / "copy-of-run-1"
    copy.mkdir()
    for name in ("points.json", "samples.parquet"):
        (copy / name).write_bytes((tmp_path / "run-1" / name).read_bytes())
    assert compare(make_run(tmp_path, run_id="run-2", workers=1)).baseline == ["run-1"]


def test_verdicts_are_json_for_others(tmp_path: Path) -> None:
    leave_run(tmp_path, 1)
    compare(make_run(tmp_path, workers=1))
    stored = json.loads((tmp_path / "run-1" / "verdicts.json").read_text())
    assert stored["overall"] == "NO_BASELINE"
    assert stored["series"][0]["operation"] == "save"


def test_what_was_not_collected_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="not collected"):
        compare(make_run(tmp_path))
