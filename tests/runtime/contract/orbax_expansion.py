"""Asks Orbax itself what its shipped suites expand to; prints JSON. Run it to renew orbax_expansion.json:

    python tests/runtime/contract/orbax_expansion.py > tests/runtime/contract/orbax_expansion.json

Orbax's parser and `BenchmarksGenerator` do the work. What they import for other purposes and is not
installed here (TensorFlow, clu, torch …) is replaced by empty stand-ins; meshes are counted, not built,
because this machine lacks the devices; and the backend is said to be Pathways, because whether a backend
can run an option is not asked here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

_STAND_INS = ("clu", "tensorflow", "torch", "safetensors", "pathwaysutils", "tensorboard", "cloudpickle")
_BENCHMARKS = "orbax.checkpoint._src.testing.benchmarks"


class _StandIn(ModuleType):
    """A module in which every name exists."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")


class _StandInFinder:
    """Finds a stand-in for every module below the given packages."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = frozenset(packages)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def benchmarks_folder() -> Path:
    """Returns the folder of Orbax's benchmarks, without importing anything of it."""
    spec = importlib.util.find_spec("orbax")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))).joinpath(*_BENCHMARKS.split(".")[1:])


def suite_files(folder: Path) -> list[Path]:
    """Returns the suites below Orbax's benchmarks; cpc.yaml is a Kubernetes manifest."""
    return [path for path in sorted(folder.rglob("*.yaml")) if path.name != "cpc.yaml"]


def digest(points: Sequence[tuple[dict[str, Any], int, int]]) -> str:
    """Returns a digest of the options, mesh number and checkpoint number of each point, in order."""
    plain = [
        ({name: _without_nulls(value) for name, value in options.items()}, *rest) for options, *rest in points
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _without_nulls(value: Any) -> Any:
    """Leaves out what is null inside a policy: Orbax's dataclasses hold every field, a suite those that
    are given."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, (list, tuple)) else value


def _points(generator: Any) -> list[tuple[dict[str, Any], int, int]]:
    """Lets Orbax expand one generator."""
    meshes = list(enumerate(generator._mesh_configs)) if generator._mesh_configs else [(0, None)]
    checkpoints = list(enumerate(generator._checkpoint_configs))
    generator._checkpoint_configs = checkpoints
    named = mock.patch.object(generator, "generate_benchmark_name", lambda *parts: "")
    laid_out = mock.patch.object(generator, "_get_meshes", lambda skip: meshes)
    without_mesh = generator._mesh_configs is None
    with named, laid_out:
        return [
            (
                dataclasses.asdict(benchmark.options),
                0 if without_mesh else benchmark.mesh[0],
                benchmark.checkpoint_config[0],
            )
            for benchmark in generator.generate()
        ]


def _options(generator_class: Any) -> list[list[Any]]:
    """Returns name and default of each option, in order; a required one has no default."""
    fields = dataclasses.fields(generator_class.options_class)
    return [[f.name] if f.default is dataclasses.MISSING else [f.name, f.default] for f in fields]


def expansion() -> dict[str, Any]:
    """Returns, for each shipped suite, what Orbax expands it to, and the options of each of its classes."""
    missing = [name for name in _STAND_INS if importlib.util.find_spec(name) is None]
    sys.meta_path.append(_StandInFinder(missing))  # type: ignore[arg-type]
    parsing = importlib.import_module(f"{_BENCHMARKS}.core.config_parsing")
    multihost = importlib.import_module("orbax.checkpoint._src.multihost.multihost")
    public = importlib.import_module("orbax.checkpoint").multihost
    core = importlib.import_module(f"{_BENCHMARKS}.core.core")
    suites: dict[str, Any] = {}
    pathways = [
        mock.patch.object(module, "is_pathways_backend", lambda: True) for module in (multihost, public)
    ]
    with pathways[0], pathways[1], mock.patch.object(core.metrics_manager, "MetricsManager"):
        folder = benchmarks_folder()
        for path in suite_files(folder):
            suite = parsing.create_test_suite_from_config(str(path))
            points = [point for generator in suite._benchmarks_generators for point in _points(generator)]
            suites[path.relative_to(folder).as_posix()] = {"points": len(points), "digest": digest(points)}
        options = {name: _options(parsing._import_class(name)) for name in _class_names(folder)}
    version = importlib.metadata.version("orbax-checkpoint")
    return {"orbax-checkpoint": version, "suites": suites, "options": options}


def _class_names(folder: Path) -> list[str]:
    """Returns every class that is decorated as a benchmark, by its dotted name."""
    names = []
    for path in sorted(folder.rglob("*.py")):
        module = ".".join((_BENCHMARKS, *path.relative_to(folder).with_suffix("").parts))
        lines = path.read_text().splitlines()
        for decorator, line in itertools.pairwise(lines):
            if "benchmark_options(" in decorator and decorator.startswith("@") and line.startswith("class "):
                names.append(f"{module}.{line.removeprefix('class ').partition('(')[0]}")
    return names


if __name__ == "__main__":
    print(json.dumps(expansion(), indent=1, sort_keys=True))
