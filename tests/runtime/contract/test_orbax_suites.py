"""The suites that Orbax ships: 72 of 73 read, each expanding exactly as Orbax itself expands it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.expand import expand
from runtime.contract.generators import GENERATORS
from runtime.contract.options import REQUIRED
from runtime.contract.suite import Point, Suite
from runtime.contract.suite_reader import read_suite
from tests.runtime.contract import orbax_expansion

HERE = Path(__file__).parent
ORBAX: dict[str, Any] = json.loads((HERE / "orbax_expansion.json").read_text())
FOLDER = orbax_expansion.benchmarks_folder()
REFUSED = "configs/evaluations/replica_parallel/llama-8b-v5p-8.yaml"


def _read(name: str) -> Suite:
    return read_suite((FOLDER / name).read_text(), name)


def _as_orbax_counts(suite: Suite, points: list[Point]) -> list[tuple[dict[str, Any], int, int]]:
    return [
        (
            dict(point.options),
            suite.meshes.index(point.mesh) if point.mesh else 0,
            suite.checkpoints.index(point.checkpoint),
        )
        for point in points
    ]


def test_all_shipped_suites_are_in_the_table() -> None:
    names = {path.relative_to(FOLDER).as_posix() for path in orbax_expansion.suite_files(FOLDER)}
    assert names == set(ORBAX["suites"])
    assert len(names) == 73


@pytest.mark.parametrize("name", sorted(set(ORBAX["suites"]) - {REFUSED}))
def test_a_shipped_suite_expands_as_orbax_expands_it(name: str) -> None:
    suite = _read(name)
    points = expand(suite)
    assert len(points) == ORBAX["suites"][name]["points"]
    assert orbax_expansion.digest(_as_orbax_counts(suite, points)) == ORBAX["suites"][name]["digest"]
    assert len({point.key for point in points}) == len(points)
    assert len({point.benchmark for point in points}) == len(points)


def test_the_one_with_a_key_that_orbax_ignores_is_refused_with_its_line() -> None:
    text = (FOLDER / REFUSED).read_text()
    line = next(n for n, content in enumerate(text.splitlines(), 1) if content.startswith("reuse_checkpoint"))
    with pytest.raises(BadInput) as refusal:
        read_suite(text, REFUSED)
    (problem,) = refusal.value.problems
    assert str(problem).startswith(f"{REFUSED}:{line}:1: unknown key 'reuse_checkpoint'")


def test_without_that_key_it_expands_as_orbax_expands_it_too() -> None:
    lines = (FOLDER / REFUSED).read_text().splitlines()
    suite = read_suite("\n".join(line for line in lines if not line.startswith("reuse_checkpoint")), REFUSED)
    digest = orbax_expansion.digest(_as_orbax_counts(suite, expand(suite)))
    assert digest == ORBAX["suites"][REFUSED]["digest"]


def test_every_class_of_orbax_is_known_with_its_options_in_order() -> None:
    ours = {
        name: [[o.name] if o.default == REQUIRED else [o.name, o.default] for o in generator.options]
        for name, generator in GENERATORS.items()
    }
    assert ours == ORBAX["options"]


@pytest.mark.system
def test_the_table_is_what_orbax_says_today(tmp_path: Path) -> None:
    script = HERE / "orbax_expansion.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert json.loads(done.stdout) == ORBAX
