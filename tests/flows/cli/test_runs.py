"""`slicebench runs` lists every run, whatever state it was left in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.flows.cli.past import leave_run
from tests.slowness import slowness

ROOT = Path(__file__).parents[3]


def test_runs_are_listed_with_the_latest_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_run(tmp_path, "b-run", 1000.0)
    leave_run(tmp_path, "a-run", 2000.0, ended=False)
    assert main(["runs", "--output", str(tmp_path)]) == 0
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "started", "suite", "target", "verdict", "exit", "took"]
    assert first.split() == [
        "b-run", "1970-01-01", "00:16:40", "UTC", "quickstart", "local", "NO_BASELINE", "0", "61.5", "s",
    ]  # fmt: skip
    assert second.split()[0] == "a-run"
    assert "unfinished" in second


def test_a_resumed_run_took_as_long_as_its_passes_and_a_killed_one_shows_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, more in (
        ("resumed", {"exit_code": 0, "took_s": 42.0, "verdict": "PASS"}),
        ("killed", {"exit_code": 3, "took_s": 7.0, "causes": ["it was killed"]}),
    ):
        folder = leave_run(tmp_path, name, 1000.0, ended=False)
        (folder / "outcome.json").write_text(json.dumps({"finished_at": 90000.0, **more}))
    assert main(["runs", "--output", str(tmp_path)]) == 0
    killed, resumed = sorted(capsys.readouterr().out.splitlines()[1:])
    assert resumed.split()[-4:] == ["PASS", "0", "42.0", "s"]
    assert killed.split()[-4:] == ["–", "3", "7.00", "s"]


def test_broken_folders_are_told_and_others_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(tmp_path, "good", 1000.0)
    for name, content in (("cut", b"{"), ("list", b"[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "request.json").write_bytes(content)
    leave_run(tmp_path, "bad-outcome", 3000.0, ended=False)
    (tmp_path / "bad-outcome" / "outcome.json").write_text("nonsense")
    (tmp_path / "not-a-run").mkdir()
    (tmp_path / "file").write_text("")
    assert main(["runs", "--output", str(tmp_path), "--json"]) == 0
    found = {run["run_id"]: run for run in json.loads(capsys.readouterr().out)["runs"]}
    assert set(found) == {"good", "cut", "list", "bad-outcome"}
    assert found["good"]["state"] == "done"
    assert found["good"]["duration_s"] == 61.5
    assert all(found[name]["state"].startswith("damaged: ") for name in ("cut", "list", "bad-outcome"))


def test_a_damaged_run_does_not_widen_the_table_and_is_explained_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_run(tmp_path, "good", 1000.0)
    leave_run(tmp_path, "cut", 2000.0)
    (tmp_path / "cut" / "outcome.json").write_text('{"exit_code": ')
    assert main(["runs", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    good, cut = shown.out.splitlines()[1:]
    assert cut.split()[-4:] == ["local", "damaged", "–", "–"] and "00:33:20" in cut
    assert len(good) < 90
    assert shown.err.startswith("cut is damaged: outcome.json is not JSON")


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_results_that_are_cut_short_are_told_alike_wherever_one_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keep: int
) -> None:
    folder = leave_run(tmp_path, "cut", 1000.0)
    samples = folder / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:keep])
    told = f"{samples} is cut short: slicebench run --resume cut --from collect --output {tmp_path}"
    assert main(["runs", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert "damaged" in shown.out and shown.err == f"cut is damaged: {told}\n"
    assert main(["report", "cut", "--output", str(tmp_path)]) == 3
    assert capsys.readouterr().err == f"slicebench: {told}\n"
    assert main(["explain", "cut", "--output", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"seen: {samples}: is cut short" in said
    assert f"next: slicebench run --resume cut --output {tmp_path} --from collect" in said


def test_only_the_last_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(4):
        leave_run(tmp_path, f"run-{n}", 1000.0 + n, ended=False)
    assert main(["runs", "--output", str(tmp_path), "--last", "2"]) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == ["run-2", "run-3"]
    assert "2 earlier runs not shown: --last" in shown.err


def test_the_default_output_may_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    assert "no runs in" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["runs"], ["logs"], ["report", "--help"]])
def test_looking_back_is_quick_and_needs_no_heavy_library(tmp_path: Path, command: list[str]) -> None:
    leave_run(tmp_path / "runs", "run-1", 1000.0)
    code = (
        "import sys, time; from flows.cli.main import main; code = main(sys.argv[1:]);"
        "heavy = {'prefect', 'jax', 'numpy', 'pandas', 'pyarrow', 'matplotlib', 'scipy', 'google'} & set(sys.modules);"
        "print(code, sorted(heavy), time.process_time(), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SLICEBENCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    exit_code, heavy, cpu_s = done.stderr.splitlines()[-1].split(" ", 2)
    assert (exit_code, heavy) == ("0", "[]")
    assert float(cpu_s) < 1.0 * slowness()
