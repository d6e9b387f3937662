"""Orbax's own classes run behind our recorder; without their packages the point says what to install."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from etils import epath

from runtime.benchmarks import torch_group

RunSuite = Callable[..., Any]

ORBAX = "orbax.checkpoint._src.testing.benchmarks."
PYTREE = ORBAX + "pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
PERF = ORBAX + "checkpoint_manager_perf_benchmark.CheckpointManagerPerfBenchmark"
STUBS = Path(__file__).parents[2] / "bench" / "stubs"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What Orbax's harness imports, stubbed where it is not installed: nothing of it is called here."""
    if importlib.util.find_spec("tensorflow") is None:
        epath.Path("/").exists()  # it looks once whether there is TensorFlow: before the stub is there
        monkeypatch.syspath_prepend(str(STUBS))
    yield


def test_orbaxs_own_class_on_demand(run_suite: RunSuite, harness: None) -> None:
    outcome = run_suite(PYTREE, "{use_zarr3: [true, false]}", "implementation: orbax")
    assert [(each.status, each.cause) for each in outcome.results] == [("passed", "")] * 2
    assert {each.implementation for each in outcome.results} == {"orbax"}
    assert outcome.operations() == [("save", 0), ("wait_until_finished", 0), ("restore", 0)]


def test_every_block_is_kept_under_the_name_it_has(run_suite: RunSuite, harness: None) -> None:
    outcome = run_suite(PERF, "{train_steps: 2}", "implementation: orbax")
    assert [(each.status, each.cause) for each in outcome.results] == [("passed", "")]
    names = [name for name, _ in outcome.operations()]
    assert [name for name in names if name.startswith("save_")] == ["save_0", "save_1"]


def test_orbaxs_measure_is_back_afterwards(run_suite: RunSuite, harness: None) -> None:
    run_suite(PYTREE, "{}", "implementation: orbax")
    from orbax.checkpoint._src.testing.benchmarks.core import metric

    assert metric.Metrics.measure.__module__ == metric.__name__


def test_missing_packages_are_named_with_the_extra(
    run_suite: RunSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "clu" else plain(name, *more)
    )
    outcome = run_suite(PERF, "{}", "implementation: orbax")
    assert outcome.results[0].status == "not_run"
    assert "needs clu" in outcome.results[0].cause
    assert "slicebench[orbax-classes]" in outcome.results[0].cause


def test_a_users_class_for_orbaxs_harness_runs_too(
    run_suite: RunSuite, harness: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs_of_old.py").write_text(
        f"from {PYTREE.rpartition('.')[0]} import PyTreeCheckpointBenchmark\n\n\n"
        "class Derived(PyTreeCheckpointBenchmark):\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run_suite("theirs_of_old.Derived", "{use_zarr3: true}")
    assert [(each.status, each.implementation) for each in outcome.results] == [("passed", "user")]


def test_options_that_orbax_refuses_are_told(
    run_suite: RunSuite, harness: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs_of_old2.py").write_text(
        f"from {PYTREE.rpartition('.')[0]} import PyTreeCheckpointBenchmark as Derived\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run_suite("theirs_of_old2.Derived", "{colour: red}")
    assert outcome.results[0].status == "not_run"
    assert "does not take these options" in outcome.results[0].cause


class Group:
    """Stands for torch.distributed: writes down how it was joined."""

    def __init__(self) -> None:
        self.joined: list[tuple[str, Any, int, int]] = []
        self.served: list[tuple[Any, ...]] = []

    def is_initialized(self) -> bool:
        return bool(self.joined)

    def init_process_group(self, backend: str, *, store: Any, rank: int, world_size: int) -> None:
        self.joined.append((backend, store, rank, world_size))

    def HashStore(self) -> str:
        return "alone"

    def TCPStore(self, *where: Any, **more: Any) -> Any:
        self.served.append(where)
        return SimpleNamespace(port=4711)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    made = Group()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=made))
    monkeypatch.setitem(sys.modules, "torch.distributed", made)
    return made


def test_torchs_benchmark_finds_all_workers_joined(
    run_suite: RunSuite, harness: None, group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a class in the place of the real one, which needs CUDA as soon as it begins."""
    (tmp_path / "of_torch.py").write_text(
        f"from {PYTREE.rpartition('.')[0]} import PyTreeCheckpointBenchmark\n\n\n"
        "class Derived(PyTreeCheckpointBenchmark):\n    pass\n\n\n"
        f"Derived.__module__ = {ORBAX + 'pytorch_checkpoint_benchmark'!r}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run_suite("of_torch.Derived", "{use_zarr3: [true, false]}")
    assert [each.status for each in outcome.results] == ["passed"] * 2
    assert group.joined == [("nccl", "alone", 0, 1)], "once"


@pytest.mark.parametrize(
    ("worker", "served"), [(0, [("10.0.0.2", 0, 2, True)]), (1, [("10.0.0.2", 4711, 2, False)])]
)
def test_several_workers_meet_where_jax_does(
    group: Group, monkeypatch: pytest.MonkeyPatch, worker: int, served: list[tuple[Any, ...]]
) -> None:
    from jax._src import distributed as of_jax

    monkeypatch.setattr(of_jax.global_state, "coordinator_address", "10.0.0.2:1234")
    monkeypatch.setattr(torch_group.jax, "process_count", lambda: 2)
    monkeypatch.setattr(torch_group.jax, "process_index", lambda: worker)
    monkeypatch.setattr(torch_group.distributed, "largest", lambda port: max(port, 4711))
    torch_group.join("gloo")
    assert group.served == served
    assert [(one[0], *one[2:]) for one in group.joined] == [("gloo", worker, 2)]
