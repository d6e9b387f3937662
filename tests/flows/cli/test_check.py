"""`slicebench check`: exit codes, messages, JSON, and how little it costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.check import check
from flows.cli.schema import schema
from runtime.contract.errors import BadInput, ExitCode
from tests.slowness import slowness

ROOT = Path(__file__).parents[3]
QUICKSTART = str(ROOT / "configs" / "suites" / "quickstart.yaml")
TARGET = str(ROOT / "configs" / "targets" / "local.yaml")


def test_a_right_suite_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(QUICKSTART) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.err == f"{QUICKSTART}: ok, 2 benchmarks, 6 repeats each after 1 to warm up\n"
    assert captured.out == ""


def test_combinations_left_out_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    check(str(ROOT / "configs" / "suites" / "array_handler.yaml"))
    assert (
        "5 benchmarks, 3 repeats each after 1 to warm up, 3 invalid combinations" in capsys.readouterr().err
    )


def test_all_problems_of_all_files_are_told_and_the_exit_code_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("suite_name: x\nnum_repeat: 3\nbenchmarks: []\n")
    missing = str(tmp_path / "missing.yaml")
    assert check(QUICKSTART, str(bad), missing) == ExitCode.BAD_INPUT
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith(f"{QUICKSTART}: ok")
    assert told[1].startswith(f"{bad}:2:1: unknown key 'num_repeat'")
    assert told[2].startswith(f"{bad}:3:13: benchmarks is empty")
    assert told[3].startswith(f"{missing}: there is no such file")


def test_a_warning_is_told_and_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text(Path(QUICKSTART).read_text().replace("model: 2}", "model: 2, expert: 1}"))
    assert check(str(suite)) == ExitCode.DONE
    told = capsys.readouterr().err.splitlines()
    assert "warning: ici_parallelism names axis 'expert'" in told[0]
    assert ": ok, 2 benchmarks" in told[1]


def test_a_class_of_the_users_is_said_not_to_be_looked_at_and_when_it_will_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "own.yaml"
    suite.write_text("suite_name: x\nbenchmarks:\n  - generator: mybench.Svae\n    options: {size: [1, 2]}\n")
    (tmp_path / "mybench.py").write_text("raise SystemExit('imported')\n")
    assert check(str(suite), json=True) == ExitCode.DONE
    shown = capsys.readouterr()
    (told,) = json.loads(shown.out)["files"]
    note, summary = shown.err.splitlines()
    assert (told["ok"], told["problems"], told["notes"]) == (True, [], [note])
    assert note.startswith(
        f"{suite}:3:5: note: generator mybench.Svae and its options are not looked at here"
    )
    assert "first stage of a run, build" in note and summary.startswith(f"{suite}: ok, 2 benchmarks")


def test_json_holds_everything_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("suite_name: x\nbenchmarks: []\n")
    assert check(QUICKSTART, str(bad), json=True) == ExitCode.BAD_INPUT
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    right, wrong = told["files"]
    assert (right["ok"], right["kind"], right["points"], right["problems"]) == (True, "suite", 2, [])
    assert (wrong["ok"], wrong["points"]) == (False, None)
    (problem,) = wrong["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == (str(bad), 2, 13)
    assert problem["severity"] == "error"


def test_overrides_are_checked_with_the_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(QUICKSTART, set_=("benchmarks.0.options.use_ocdbt=true", "num_repeats=1")) == ExitCode.DONE
    assert "1 benchmark, 1 repeat each" in capsys.readouterr().err
    assert check(QUICKSTART, set_=("num_repeats=0",)) == ExitCode.BAD_INPUT
    assert "num_repeats must be an integer of at least 1, not 0" in capsys.readouterr().err
    assert check(QUICKSTART, set_=("nope.a=1",)) == ExitCode.BAD_INPUT


def test_a_target_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(TARGET) == ExitCode.DONE
    bad = tmp_path / "target.yaml"
    bad.write_text("kind: local\nworker: 3\n")
    assert check(str(bad)) == ExitCode.BAD_INPUT
    assert f"{bad}:2:1: unknown key 'worker'" in capsys.readouterr().err


def test_what_is_in_configs_goes_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("quickstart", "local") == ExitCode.DONE
    told = capsys.readouterr().err.splitlines()
    assert "configs/suites/quickstart.yaml: ok" in told[0] and "configs/targets/local.yaml: ok" in told[1]
    assert check("quickstrat") == ExitCode.BAD_INPUT


def test_no_file_is_bad_input() -> None:
    with pytest.raises(BadInput, match="name is empty"):
        check("")
    with pytest.raises(BadInput):
        check()


@pytest.mark.parametrize("kind", ["suite", "target"])
def test_schemas_are_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema(kind) == ExitCode.DONE  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out)["title"] == f"slicebench {kind}"


def test_checking_a_suite_is_quick_and_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from flows.cli.main import main\n"
        f"assert main(['check', {QUICKSTART!r}]) == 0\n"
        "heavy = {'jax', 'numpy', 'orbax', 'pydantic', 'prefect', 'pandas', 'google'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    before = os.times()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    after = os.times()
    assert done.returncode == 0, done.stderr
    took_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert took_s < 1.0 * slowness()


def test_key_files_that_are_not_here_are_told_and_may_be_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encryption = f"encryption: {{keys: {{bkt: 'file:{tmp_path}/none.json'}}}}"
    (tmp_path / "t.yaml").write_text(f"kind: local\n{encryption}\n")
    (tmp_path / "a.yaml").write_text(
        "{name: a, output: gs://bkt/o, set: [benchmarks.0.options.train_steps=200], "
        f"variants: [{{name: none}}, {{name: own, {encryption}}}]}}\n"
    )
    assert check(str(tmp_path / "t.yaml"), str(tmp_path / "a.yaml")) == 0
    told = capsys.readouterr().err
    assert f"{tmp_path}/t.yaml:2:14: warning: the key file {tmp_path}/none.json cannot be read" in told
    assert re.search(r"a\.yaml:1:\d+: warning: variant own: the key file", told) and told.count("ok, ") == 2
