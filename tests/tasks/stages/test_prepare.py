"""From request to run: all problems at once, nothing made before, paths that mean the same elsewhere, and resuming."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from tasks.config.request import RunRequest
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE
from tasks.stages.finish import finish
from tasks.stages.prepare import begin, prepare, resolve, settled
from tasks.stages.provision import look_over

ROOT = Path(__file__).parents[3]


def request(output: Path | str, **fields: Any) -> RunRequest:
    return RunRequest(**{"suite": "quickstart", "output": str(output), **fields})


def test_problems_of_all_inputs_are_told_together(tmp_path: Path) -> None:
    wrong = request("s3://bucket/runs", suite="quickstat", target="moon", run_id="No!", env=["A B=c"])
    with pytest.raises(BadInput) as refusal:
        resolve(wrong, {})
    told = str(refusal.value)
    for words in ("s3:// is not a storage", "suite 'quickstat'", "target 'moon'", "'No!'", "'A B'"):
        assert words in told


def test_paths_mean_the_same_wherever_the_request_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs/targets").mkdir(parents=True)
    shutil.copy(ROOT / "configs/targets/local.yaml", tmp_path / "configs/targets/mine.yaml")
    for folder in ("orbax", "wheels"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a.env").write_text("A=b\n")
    monkeypatch.chdir(tmp_path)
    asked = request("out", target="mine", repo="orbax", jax_version="nightly", jax_index="wheels")
    asked = asked.model_copy(update={"env_file": ["a.env"], "set": ["num_repeats=1"]})
    here = settled(asked, spec := resolve(asked, {}))
    assert (here.output, here.repo, here.jax_index, here.env_file, here.target) == (
        str(tmp_path / "out"),
        str(tmp_path / "orbax"),
        str(tmp_path / "wheels"),
        [str(tmp_path / "a.env")],
        str(tmp_path / "configs/targets/mine.yaml"),
    )
    monkeypatch.chdir("/")
    assert resolve(here, {}) == spec


def test_a_run_goes_on_with_the_suite_that_it_began_with(tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    shutil.copy(ROOT / "configs/suites/quickstart.yaml", suite)
    asked = request(tmp_path / "out", suite=str(suite), run_id="r-1", set=["num_repeats=3"])
    first = prepare(asked, print)
    first.mark("build")
    first.mark("upload")
    suite.unlink()
    asked = request(tmp_path / "out", run_id="r-1", resume=True, from_stage="upload")
    again = prepare(asked, print)
    assert again.marker("upload") is not None, "until it is known that no other process has the run"
    begin(again, asked)
    assert (again.spec.num_repeats, again.spec.points) == (3, first.spec.points)
    assert (again.marker("build") is None, again.marker("upload")) == (False, None)


def test_what_is_doubtful_in_a_suite_is_said_once(tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text("baseline_path: x.json\n" + (ROOT / "configs/suites/quickstart.yaml").read_text())
    said: list[str] = []
    prepare(request(tmp_path / "out", suite=str(suite), run_id="r-1"), said.append)
    prepare(request(tmp_path / "out", run_id="r-1", resume=True), said.append)
    (line,) = said
    assert line.startswith(f"{suite}:1:1: warning: baseline_path is checked but not used")


UNFIT = """\
suite_name: Unfit
mesh_configs:
  - {mesh_axes: [data], ici_parallelism: {data: 4}}
  - {mesh_axes: [data], ici_parallelism: {data: 8}}
checkpoint_config: {spec: {a: {dtype: float32, shape: [64], sharding: [data]}}}
benchmarks:
  - generator: orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark
    options: {use_colocated_python: [true, false]}
"""


def test_what_does_not_fit_the_target_is_said_once_and_written_down(tmp_path: Path) -> None:
    suite = tmp_path / "unfit.yaml"
    suite.write_text(UNFIT)
    said: list[str] = []
    run = prepare(request(tmp_path / "out", suite=str(suite), run_id="r-1"), said.append)
    assert len(run.spec.points) == 1
    needs, takes = said
    name = "PyTreeCheckpointBenchmark[use_colocated_python"
    assert needs.startswith(f"warning: 2 of 4 benchmarks left out ({name}=True,mesh=0], {name}=True,mesh=1])")
    assert needs.endswith("needs pathways")
    assert takes.startswith(f"warning: 1 of 4 benchmarks left out ({name}=False,mesh=0])")
    assert takes.endswith("mesh data 4 takes 4 devices, the target has 8")
    again = prepare(request(tmp_path / "out", run_id="r-1", resume=True), said.append)
    assert (len(said), again.spec.told_left_out) == (2, run.spec.told_left_out)
    finish(again, [], [], None, None)
    outcome = json.loads(run.folder.read(OUTCOME_FILE) or b"")
    assert [line.partition(" (")[0] for line in outcome["left_out"]] == [
        "2 of 4 benchmarks left out",
        "1 of 4 benchmarks left out",
    ]
    assert look_over(again.target, again.target.plan(again.spec), again.spec) == []


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    prepare(request(tmp_path, run_id="r-1"), print)
    with pytest.raises(BadInput, match="continue it with --resume r-1"):
        prepare(request(tmp_path, run_id="r-1"), print)


def test_values_of_secrets_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hush-hush")
    run = prepare(request(tmp_path, env=["HF_TOKEN", "A=b"]), print)
    assert (run.spec.env["HF_TOKEN"], run.spec.secret_env) == ("hush-hush", {"HF_TOKEN"})
    stored = (run.folder.read(REQUEST_FILE) or b"").decode()
    assert json.loads(stored)["request"]["env"] == ["HF_TOKEN", "A=b"] and "hush" not in stored


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="not writable"):
        prepare(request(tmp_path / "file/runs"), print)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_would_not_be_encrypted_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("kind: local\nencryption: {keys: {my-bucket: 'file:/no/key.json'}}\n")
    past = ["TENSORSTORE_GCS_BACKEND=gcs_grpc"]
    with pytest.raises(BadInput) as refusal:
        resolve(request("gs://other/runs", target=str(file), env=past), {})
    told = [f"{problem}" for problem in refusal.value.problems]
    assert told[0].startswith(f"{file}: error: gs://other/runs is in no place") or "is in no place" in told[0]
    assert "speaks gRPC" in told[1]
    here = {"TENSORSTORE_GCS_BACKEND": "gcs_grpc"}
    with pytest.raises(BadInput, match="speaks gRPC, .*, in this environment, .*, unset it"):
        resolve(request("gs://my-bucket/runs", target=str(file)), here)
    resolve(request("gs://my-bucket/runs", target=str(file), env=["TENSORSTORE_GCS_BACKEND="]), here)
    [warning] = resolve(request(tmp_path / "out", target=str(file)), {}).warnings
    assert (warning.severity, f"{tmp_path}/out is a folder" in warning.what) == ("warning", True)
    with pytest.raises(BadInput, match=r"the key file /no/key\.json cannot be read"):
        prepare(request(tmp_path / "out", target=str(file)), print)


AT, TENSORSTORE_AT = "STORAGE_EMULATOR_HOST", "TENSORSTORE_GCS_HTTP_URL"
IN_PODS = "kind: gke\ncontext: c\ntype: cpu\nnodes: 1\nqueue: null\npriority: null\n"


@pytest.mark.parametrize(
    ("target", "env", "here", "told"),
    [
        ("kind: local\n", [], {AT: "http://s"}, f"{AT} is set and {TENSORSTORE_AT} is not, "),
        ("kind: local\n", [], {TENSORSTORE_AT: "http://s"}, f"{TENSORSTORE_AT} is set and {AT} is not, "),
        ("kind: local\n", [f"{AT}=http://s"], {}, f"--env: {AT} is set and {TENSORSTORE_AT} is not, "),
        (
            "kind: local\n",
            [f"{AT}="],
            {AT: "http://s", TENSORSTORE_AT: "http://s"},
            f"{TENSORSTORE_AT} is set",
        ),
        (f"{IN_PODS}env: {{{AT}: 'http://s'}}\n", [], {}, f"t.yaml: {AT} is set and"),
        ("kind: local\n", [f"{AT}=http://s"], {TENSORSTORE_AT: "http://s"}, ""),
        (f"{IN_PODS}env: {{{AT}: 'http://s'}}\n", [f"{TENSORSTORE_AT}=http://s"], {}, ""),
        (IN_PODS, [], {AT: "http://s"}, ""),
        ("kind: local\n", [], {TENSORSTORE_AT: "https://storage-mine.p.googleapis.com/"}, ""),
        (
            "kind: local\n",
            [],
            {AT: "http://s.googleapis.com.s:1", TENSORSTORE_AT: "https://storage.googleapis.com"},
            f"{AT} is set and {TENSORSTORE_AT} leads to Google, ",
        ),
        ("kind: local\nencryption: {keys: {my-bucket: 'file:/no/key.json'}}\n", [], {AT: "http://s"}, ""),
    ],
)
def test_a_stand_in_of_the_store_is_one_for_all_clients(
    tmp_path: Path, target: str, env: list[str], here: dict[str, str], told: str
) -> None:
    """Else a part of each checkpoint would go to Cloud Storage itself, into the bucket of that name."""
    file = tmp_path / "t.yaml"
    file.write_text(target)
    asked = request("gs://my-bucket/runs", target=str(file), env=env)
    if not told:
        resolve(asked, here)
        return
    with pytest.raises(BadInput) as refusal:
        resolve(asked, here)
    assert told in str(refusal.value) and "set both to the same address" in str(refusal.value)
    if target.startswith("kind: local"):
        resolve(request(tmp_path / "out", target=str(file), env=env), here)


def test_simulated_hardware_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    shipped = Path(__file__).parents[3] / "configs" / "suites" / "quickstart.yaml"
    suite.write_text(f"simdevice: {{device_type: v6e, topology: [2, 2, 1]}}\n{shipped.read_text()}")
    with pytest.raises(BadInput, match="asks for simulated TPUs"):
        prepare(RunRequest(suite=str(suite), output=str(tmp_path / "runs")), print)
    assert not (tmp_path / "runs").exists()
