"""`slicebench plan`: the facts of a run that is not made, for people and for programs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from flows.cli.main import main


def test_people_get_a_fact_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--output", str(tmp_path), "--run-id", "r1"]) == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch(r" *Quickstart: 2 benchmarks, \d repeats each", lines["suite"])
    assert lines["output"].strip() == f"{tmp_path}/r1"
    assert lines["makes"].strip().startswith("3 resources: directory ")


ONE = """\
suite_name: One
checkpoint_config: {spec: {array: {dtype: float32, shape: [8]}}}
benchmarks:
  - {generator: runtime.benchmarks.array_handler.ArrayHandler, options: {}}
"""


def test_one_of_each_is_told_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "one.yaml"
    suite.write_text(ONE)
    assert main(["plan", str(suite), "--workers", "1", "--output", str(tmp_path / "runs")]) == 0
    told = capsys.readouterr().out
    lines = {name: fact.strip() for name, _, fact in (line.partition(":") for line in told.splitlines())}
    assert lines["suite"] == "One: 1 benchmark, 1 repeat each"
    assert lines["target"] == "local: 1 slice, 1 worker × 1 cpu device"
    assert lines["price"] == "nothing beyond what is there already"
    assert re.fullmatch(r"a new venv \w+ \(nothing has been built here yet\)", lines["build"])
    assert main(["check", str(suite)]) == 0
    assert capsys.readouterr().err.endswith("ok, 1 benchmark, 1 repeat each\n")


KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
OURS = f"encryption: {{keys: {{bkt: {KEY}, bkt/own: file:KEY}}}}"
THEIRS = "sidecar: {name: other, command: [p, '{port}'], ready: {path: /up}, workload_env: {https_proxy: u}}"


@pytest.mark.parametrize(
    ("stands", "encrypts", "ports", "told"),
    [
        (
            OURS,
            True,
            {"workers": None, "health": None},
            [
                "encryption, slicebench's own proxy, beside each worker, as a process",
                f"encrypts what is written to bkt, with {KEY}",
                "encrypts what is written to bkt/own, with file:",
                "everything else passes through as it is",
                "is not in a bucket: nothing written there goes through it",
                "listens on free loopback ports, for workers, health; is ready once it answers /readyz",
                "gives the workers STORAGE_EMULATOR_HOST, TENSORSTORE_GCS_HTTP_URL",
            ],
        ),
        (
            "encryption: {enabled: false, face: forward}",
            False,
            {"workers": None, "health": None, "https_proxy": None},
            ["encrypts nothing: everything passes through as it is"],
        ),
        (
            THEIRS,
            None,
            {"workers": None},
            [
                "other, beside each worker, as a process",
                "whether it encrypts is not known here",
                "is ready once it answers /up with 200, within 60 s",
                "gives the workers https_proxy",
            ],
        ),
    ],
)
def test_what_stands_beside_each_worker_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    stands: str,
    encrypts: bool | None,
    ports: dict[str, int | None],
    told: list[str],
) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"key": []}')
    key.chmod(0o600)
    (tmp_path / "t.yaml").write_text(f"kind: local\n{stands.replace('KEY', str(key))}\n")
    words = ["plan", "quickstart", "--target", str(tmp_path / "t.yaml"), "--output", str(tmp_path / "o")]
    assert main(words) == 0
    said = capsys.readouterr().out
    lines = said[said.index("beside: ") : said.index("makes: ")].removeprefix("beside: ").splitlines()
    found = [line.strip() for line in lines]
    assert all(any(one in line for line in found) for one in told), found
    assert main([*words, "--json"]) == 0
    beside = json.loads(capsys.readouterr().out)["beside"]
    assert (beside["encrypts"], beside["ports"], beside["image"]) == (encrypts, ports, None)
    assert beside["keys"] == ({"bkt": KEY, "bkt/own": f"file:{key}"} if encrypts else {})


def test_programs_get_numbers_and_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--output", str(tmp_path), "--run-id", "r1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run_id"], told["points"], told["output"]) == ("r1", 2, f"{tmp_path}/r1")
    assert told["workers"] == 2
    assert list(tmp_path.iterdir()) == []


def shipped(name: str) -> str:
    found = importlib.util.find_spec("orbax.checkpoint")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parent / f"_src/testing/benchmarks/configs/{name}.yaml")


def test_points_that_the_target_cannot_run_are_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [shipped("pytree_checkpoint_benchmark"), "--output", str(tmp_path), "--skip-preflight"]
    assert main(["plan", *asked, "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    warning = next(problem for problem in told["problems"] if "left out" in problem)
    assert told["points"] == 2
    assert re.match(
        r"warning: 2 of 4 benchmarks left out \(PyTree\S+mesh=0\], PyTree\S+mesh=0\]\), ", warning
    )
    assert warning.endswith("mesh data 2 x tensor 2 takes 4 devices, the target has 16")
    assert (said.err.count("left out"), len(told["problems"])) == (1, 2), "and that nobody looked"


def test_what_a_run_would_be_refused_for_is_refused_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "runs/r1").mkdir(parents=True)
    (tmp_path / "runs/r1/request.json").write_text("{}")
    runs = str(tmp_path / "runs")
    for words, told in (
        (["--output", "/proc/x"], "output /proc/x is not writable, /proc: nobody makes folders"),
        (["--output", f"{tmp_path}/file/x"], f"{tmp_path}/file: Not a directory"),
        (["--output", runs, "--local-directory", "/proc/x"], "--local-directory /proc/x cannot be written"),
        (["--output", runs, "--run-id", "r1"], "runs/r1 is a run already, continue it with --resume r1"),
    ):
        assert main(["plan", "quickstart", *words]) == 2
        said = capsys.readouterr()
        assert (told in said.err, said.out) == (True, ""), said.err
    monkeypatch.setenv("SLICEBENCH_HOME", "/proc/x")
    assert main(["plan", "quickstart", "--output", runs]) == 2
    assert "where slicebench keeps its state, cannot be written" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "r1", "request.json", "runs"]


def test_what_a_plan_cannot_obey_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "quickstart", "--from", "run"]) == 2
    assert "--from is for a run that exists" in capsys.readouterr().err
