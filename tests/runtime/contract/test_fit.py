"""Which points fit which devices, by Orbax's rules; and no silence about those that do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.contract.expand import expand
from runtime.contract.fit import Backend, devices_wanted, fit, needs, why_mesh_unfit
from runtime.contract.suite import MeshSpec, Point
from runtime.contract.suite_reader import read_suite

ORBAX = "orbax.checkpoint._src.testing.benchmarks"
PYTREE = f"{ORBAX}.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"
EMERGENCY = f"{ORBAX}.emergency_checkpoint_manager_benchmark.EmergencyCheckpointManagerBenchmark"


def points(meshes: Sequence[str], options: str = "{}", generator: str = PYTREE) -> list[Point]:
    listed = "".join(f"  - {{mesh_axes: [data, model], {mesh}}}\n" for mesh in meshes)
    text = (
        f"suite_name: s\nbenchmarks:\n  - {{generator: {generator}, options: {options}}}\n"
        "checkpoint_config: {spec: {a: {dtype: int8, shape: [64]}}}\n"
    )
    return expand(read_suite(text + (f"mesh_configs:\n{listed}" if listed else ""), "s.yaml"))


def test_meshes_that_do_not_fit_are_left_out_with_a_warning_and_the_rest_is_numbered_anew() -> None:
    given = points(["ici_parallelism: {data: 8}", "ici_parallelism: {data: 2, model: 2}"])
    result = fit(given, Backend("cpu", devices=4))
    assert [point.index for point in result.points] == [0]
    assert [point.key for point in result.points] == [given[1].key]
    (warning,) = result.problems
    assert str(warning) == (
        "warning: 1 of 2 benchmarks left out (PyTreeCheckpointBenchmark[mesh=0]), "
        "mesh data 8 takes 8 devices, the target has 4"
    )


def test_no_mesh_that_fits_is_an_error_that_says_what_would() -> None:
    result = fit(
        points(["ici_parallelism: {data: 8}", "ici_parallelism: {data: 2}"]), Backend("cpu", devices=4)
    )
    assert result.points == ()
    (error,) = result.problems
    assert error.severity == "error"
    assert error.what == "no mesh fits the target"
    assert error.fix == "use a target with 2 or 8 devices, or change mesh_config"


def test_points_without_a_mesh_fit_anywhere() -> None:
    assert len(fit(points([]), Backend("cpu", devices=3)).points) == 1


def test_what_needs_pathways_is_left_out_elsewhere_with_the_reason() -> None:
    given = points(["ici_parallelism: {data: 2}"], "{use_colocated_python: [true, false]}")
    assert needs(given[0]) == {"pathways"}
    result = fit(given, Backend("cpu", devices=2))
    assert [point.options["use_colocated_python"] for point in result.points] == [False]
    assert "needs pathways" in str(result.problems[0])
    assert len(fit(given, Backend("tpu", devices=2, has=frozenset({"pathways"}))).points) == 2


def test_nothing_that_can_run_is_an_error() -> None:
    given = points(["ici_parallelism: {data: 2}"], "{use_colocated_python: true}")
    (error,) = fit(given, Backend("cpu", devices=2)).problems
    assert (error.severity, error.what) == ("error", "no benchmark can run on the target")
    assert "PyTreeCheckpointBenchmark with these options needs pathways" in error.why


def test_a_checkpoint_loaded_with_colocated_python_needs_pathways() -> None:
    text = f"suite_name: s\nbenchmarks:\n  - {{generator: {PYTREE}, options: {{}}}}\n"
    text += "checkpoint_config: {path: gs://b/c, load_with_colocated_python: true}\n"
    assert needs(expand(read_suite(text, "s.yaml"))[0]) == {"pathways"}


def test_torch_on_a_gpu() -> None:
    text = (
        "suite_name: s\nbenchmarks:\n"
        f"  - generator: {ORBAX}.pytorch_checkpoint_benchmark.PyTorchCheckpointBenchmark\n"
        "    options: {reference_checkpoint_path: x}\n"
    )
    given = expand(read_suite(text, "s.yaml"))
    assert needs(given[0]) == {"torch", "gpu"}
    assert fit(given, Backend("cpu", devices=1)).points == ()
    assert len(fit(given, Backend("gpu", devices=1, has=frozenset({"torch"}))).points) == 1


@pytest.mark.parametrize(
    ("mesh", "backend", "fits"),
    [
        (MeshSpec(("a",), {"a": 4}), Backend("cpu", 4), True),
        (MeshSpec(("a",), {"a": 4}), Backend("tpu", 4), True),
        (MeshSpec(("a",), {"a": 4}), Backend("cpu", 8), False),
        (MeshSpec(("a", "b"), {"b": 2}, {"a": 2}), Backend("cpu", 4, slices=1), True),
        (MeshSpec(("a", "b"), {"b": 2}, {"a": 2}), Backend("tpu", 4, slices=1), False),
        (MeshSpec(("a", "b"), {"b": 2}, {"a": 2}), Backend("tpu", 4, slices=2), True),
        (MeshSpec(("a", "b"), {"b": 2}, {"a": 2}), Backend("gpu", 4, workers=2, slices=1), False),
        (
            MeshSpec(("a", "b"), {"b": 2}, {"a": 2}, process_is_granule=True),
            Backend("gpu", 4, workers=2),
            True,
        ),
        (MeshSpec(("a", "b"), {"b": 4}, {"a": 1}), Backend("tpu", 4, slices=2), False),
        (MeshSpec(("a",)), Backend("cpu", 1), True),
    ],
)
def test_meshes_fit_by_the_rules_of_orbax(mesh: MeshSpec, backend: Backend, fits: bool) -> None:
    assert (why_mesh_unfit(mesh, backend) is None) == fits


def test_the_number_of_devices_that_most_points_want() -> None:
    eight, two, other = (f"ici_parallelism: {{{sizes}}}" for sizes in ("data: 8", "data: 2", "model: 2"))
    assert devices_wanted(points([eight, two, other])) == 2
    assert devices_wanted(points([eight, two])) == 8
    assert devices_wanted(points([])) is None


def test_what_takes_several_workers_is_left_out_where_there_is_one() -> None:
    given = points(["ici_parallelism: {data: 4}"], "{train_steps: 3}", EMERGENCY)
    assert len(fit(given, Backend("cpu", devices=4, workers=2)).points) == 1
    (problem,) = fit(given, Backend("cpu", devices=4)).problems
    assert "EmergencyCheckpointManagerBenchmark takes 2 workers or more, the target has 1" in str(problem)
