"""The transformer trains on a mesh of data and model, learns, and goes on with the same losses to the bit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from runtime.contract.errors import BadInput
from runtime.contract.expand import expand
from runtime.contract.options_training import TransformerOptions
from runtime.contract.suite_reader import read_suite
from runtime.training import program
from runtime.training.__main__ import main
from runtime.training.model import State, Trainer
from runtime.training.transformer import Transformer
from tasks.history.acceptance_log import read_log
from tests.runtime.benchmarks.test_training import Trainings, stopped
from tests.runtime.test_steps import Teller

GENERATOR = "runtime.benchmarks.transformer.TransformerTraining"
SIZES = "layers: 2, width: 16, heads: 2, vocabulary: 32, sequence: 8, batch: 2"
MESH = "mesh_config: {mesh_axes: [data, model], ici_parallelism: {data: 4, model: 2}}"


def _options(directory: Path, train_steps: int) -> TransformerOptions:
    return TransformerOptions(
        train_steps=train_steps, save_interval_steps=10, directory=str(directory),
        layers=2, width=16, heads=2, vocabulary=32, sequence=8, batch=2,
    )  # fmt: skip


class Transformers(Trainings):
    def __init__(self, folder: Path, options: str) -> None:
        text = f"suite_name: t\n{MESH}\nbenchmarks: [{{generator: {GENERATOR}, options: {{{options}}}}}]\n"
        self.suite = read_suite(text, "suite.yaml")
        self.folder = folder


@pytest.fixture
def compiled_fast() -> Iterator[None]:
    """Programs that run for a moment need not be fast."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("compiled_fast")
def test_it_learns_and_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    options = f"train_steps: 24, save_interval_steps: 10, {SIZES}"
    whole = Transformers(tmp_path / "whole", options)
    assert whole.go(Teller()).status == "passed"
    losses = [loss for told in whole.losses().values() for loss in told]
    assert len(losses) == 24
    assert losses[0] == pytest.approx(math.log(32), rel=0.3), "it knows nothing yet"
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.1
    broken = Transformers(tmp_path / "broken", options)
    broken.killed("trained", 13)
    assert broken.go(Teller(), stopped(10, 13)).status == "passed"
    assert broken.losses() == whole.losses()
    assert broken.samples("recovery")["resumed_from_step"] == 10
    told: list[str] = []
    program.train(_options(tmp_path / "program", train_steps=12), 2, 0, told.append)
    program.train(_options(tmp_path / "program", train_steps=24), 2, 0, told.append)
    first, second = read_log(told)
    assert (first.resumed, second.resumed) == (None, 10)
    assert {step: {loss} for step, loss in {**first.losses, **second.losses}.items()} == whole.losses()
    assert [len(one.saves) for one in (first, second)] == [2, 1]
    given = replace(
        _options(tmp_path / "given", train_steps=14), resume_from=str(tmp_path / "program" / "10")
    )
    told.clear()
    program.train(given, 2, 0, told.append)
    (third,) = read_log(told)
    assert (third.resumed, list(third.losses)) == (10, [11, 12, 13]), "none of its own was there"
    assert third.losses.items() <= second.losses.items()
    with pytest.raises(BadInput, match="no complete checkpoint of step 11 is in .*/program") as refused:
        lost = replace(given, directory=str(tmp_path / "none"), resume_from=str(tmp_path / "program" / "11"))
        program.train(lost, 2, 0, told.append)
    assert refused.value.problems[0].fix == "name the folder of a step that is complete"
    assert whole.samples("save")["payload_bytes"] == 4 + 3 * 4 * (
        2 * 12 * 16**2 + 2 * 32 * 16 + 8 * 16 + 5 * 16
    )


@pytest.mark.parametrize("loss", [math.nan, math.inf])
@pytest.mark.usefixtures("compiled_fast")
def test_a_loss_that_is_no_number_ends_it_before_that_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], loss: float
) -> None:
    step = Trainer.step

    def breaks(self: Trainer, state: State) -> tuple[State, Any]:
        at = int(state["step"])
        after, told = step(self, state)
        return after, np.float32(loss) if at == 10 else told

    monkeypatch.setattr(Trainer, "step", breaks)
    sizes = [f"--{word.replace(': ', '=')}" for word in f"{SIZES}, model-parallel: 2".split(", ")]
    steps = ["--train-steps=12", "--save-interval-steps=10"]
    assert main(["--directory", str(tmp_path / "p"), *steps, *sizes]) == 1
    out, err = capsys.readouterr()
    assert err == f"error: the loss of step 10 is {loss}\n"
    assert "step 9: loss" in out and "step 10" not in out
    assert sorted(one.name for one in (tmp_path / "p").iterdir()) == ["0"]


def test_a_suite_that_is_silent_saves_every_hundred_steps() -> None:
    [point] = expand(
        read_suite(f"suite_name: t\nbenchmarks: [{{generator: {GENERATOR}, options: {{}}}}]\n", "suite.yaml")
    )
    assert (point.options["save_interval_steps"], point.options["train_steps"]) == (100, 300)


def mesh(**axes: int) -> Mesh:
    count = math.prod(axes.values())
    return Mesh(np.array(jax.devices()[:count]).reshape(tuple(axes.values())), tuple(axes))


@pytest.mark.parametrize(
    ("axes", "up", "down", "tokens"),
    [
        ({"data": 4, "model": 2}, (None, "data", "model"), (None, "model", "data"), ("model", "data")),
        ({"model": 2}, (None, None, "model"), (None, "model", None), ("model", None)),
        ({"data": 4}, (None, "data", None), (None, None, "data"), (None, "data")),
        (
            {"replica": 2, "data": 2, "model": 2},
            (None, ("replica", "data"), "model"),
            (None, "model", ("replica", "data")),
            ("model", ("replica", "data")),
        ),
    ],
)
def test_where_weights_lie(axes: dict[str, int], up: Any, down: Any, tokens: Any) -> None:
    placed = Transformer(2, 16, 2, 32, 8, 2).placed(mesh(**axes))
    found = [_plain(placed[name]) for name in ("up", "query", "down", "out", "tokens", "norm_out")]
    assert found == [up, up, down, down, tokens, ()]


def _plain(spec: PartitionSpec) -> tuple[Any, ...]:
    return tuple(one[0] if isinstance(one, tuple) and len(one) == 1 else one or None for one in spec)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Transformer(1, 6, 3, 32, 8, 1), "width 6 cannot be shared evenly by 4 parts of the mesh"),
        (Transformer(1, 12, 3, 32, 8, 1), "heads 3 cannot be shared evenly by 2 parts of the mesh"),
        (Transformer(1, 16, 2, 31, 8, 1), "vocabulary 31 cannot be shared evenly by 2 parts of the mesh"),
    ],
)
def test_what_cannot_be_shared(model: Transformer, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        model.placed(mesh(data=4, model=2))


def test_heads_have_to_share_the_width(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"width must be a multiple of heads \(3\)"):
        Transformers(tmp_path, "width: 16, heads: 3")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--heads", "3"], "error: width must be a multiple of heads (3)"),
        (["--train-steps", "0"], "error: train_steps must be positive"),
        (["--model-parallel", "0"], "error: model_parallel must be positive"),
        (["--step-s", "nan"], "error: step_s must be a finite number"),
        (["--step-s", "inf"], "error: step_s must be a finite number"),
        (["--step-s", "-0.5"], "error: step_s must not be negative"),
        (["--model-parallel", "3"], "error: 8 devices cannot be shared evenly by --model-parallel 3"),
        (["--model-parallel", "8"], "error: heads 4 cannot be shared evenly by 8 parts of the mesh"),
    ],
)
def test_the_program_refuses_what_makes_no_sense(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--directory", str(tmp_path), *words]) == 2
    assert capsys.readouterr().err.startswith(told)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--directory="], "directory must name a folder, or gs://BUCKET/FOLDER"),
        (
            ["--directory=s3://b/x"],
            "directory must be a folder, or gs://BUCKET/FOLDER: s3:// is not supported",
        ),
        (["--directory=gs:///x"], "directory must name a bucket: gs://BUCKET/FOLDER"),
        (["--directory=x", "--resume-from=s3://b/300"], "resume_from must be a folder, or gs://"),
        (
            ["--directory=file/x"],
            "/file/x cannot be made: Not a directory, name another folder as --directory",
        ),
    ],
)
def test_a_place_where_no_checkpoints_can_lie_is_refused(
    words: list[str],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(words) == 2
    assert told in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.system  # gcsfs tries for half a minute
def test_a_storage_that_does_not_answer_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    assert main(["--directory", "gs://bucket/x", "--train-steps", "2"]) == 3
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "127.0.0.1" in told


@pytest.mark.parametrize("number", ["", "4", "x"])
def test_a_process_has_to_be_one_of_all(number: str) -> None:
    told = {"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": number}
    with pytest.raises(BadInput, match=f"JAX_PROCESS_ID '{number}' and JAX_NUM_PROCESSES '4' do not fit"):
        program.join(told)
    program.join({"TPU_WORKER_HOSTNAMES": "one"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JAX_PROCESS_COUNT", "two"),
        ("JAX_COORDINATOR_PORT", ""),
        ("JOB_INDEX", "x"),
        ("PROCESSES_IN_JOB", "²"),
    ],
)
def test_what_pods_are_told_has_to_be_numbers(variable: str, value: str) -> None:
    told = {"JAX_COORDINATOR_ADDRESS": "h", "JAX_PROCESS_COUNT": "2", "JAX_COORDINATOR_PORT": "6002"}
    with pytest.raises(BadInput, match=f"{variable} is '{value}', and should be a number from 0"):
        program.join(told | {variable: value})


@pytest.mark.parametrize(
    ("more", "met"),
    [
        ({"JAX_PROCESS_COUNT": "1"}, []),
        ({"JAX_PROCESS_COUNT": "4", "JOB_INDEX": "1", "JOB_COMPLETION_INDEX": "1"}, [("h:6002", 4, 3)]),
        (
            {"JAX_PROCESS_COUNT": "8", "PROCESSES_IN_JOB": "4", "JOB_INDEX": "1", "JOB_COMPLETION_INDEX": "1",
             "CONTAINER_INDEX": "1", "SLICEBENCH_CONTAINERS_PER_HOST": "2"},
            [("h:6002", 8, 7)],
        ),
    ],
)  # fmt: skip
def test_in_pods_of_a_workload_each_process_knows_which_it_is(
    more: dict[str, str], met: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, int, int]] = []
    monkeypatch.setattr("jax.distributed.initialize", lambda *told, **more: found.append(told))
    place = {"JAX_COORDINATOR_ADDRESS": "h", "JAX_COORDINATOR_PORT": "6002", "PROCESSES_IN_JOB": "2", **more}
    program.join(place)
    assert found == met


@pytest.mark.parametrize(
    ("place", "host"),
    [
        ({"JAX_COORDINATOR_ADDRESS": "h", "JAX_COORDINATOR_PORT": "6002", "JAX_PROCESS_COUNT": "2"}, "h"),
        ({"JAX_COORDINATOR_ADDRESS": "h:5", "JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2"}, "h"),
        ({"TPU_WORKER_HOSTNAMES": "t-0,t-1"}, "t-0"),
        ({"MEGASCALE_NUM_SLICES": "2", "MEGASCALE_COORDINATOR_ADDRESS": "m:8080"}, "m"),
    ],
)
def test_processes_do_not_meet_through_a_proxy(
    place: dict[str, str], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stands before Cloud Storage refuses to lead there, and JAX would wait for long."""
    monkeypatch.setattr("jax.distributed.initialize", lambda *told, **more: None)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9080")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    program.join(place)
    assert (os.environ["no_proxy"], os.environ["NO_PROXY"]) == (f"127.0.0.1,{host}", f"127.0.0.1,{host}")
