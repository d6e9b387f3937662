"""Finds the class that a point names and gives it its options: ours, a user's, or Orbax's in an adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.benchmarks.benchmark import Benchmark
from runtime.benchmarks.importing import import_class
from runtime.benchmarks.orbax_adapter import OrbaxBenchmark, is_orbax_class
from runtime.contract.errors import BadInput
from runtime.contract.generators import find
from runtime.contract.suite import Point

RUN = "{run}/"
"""What a path among the options begins with when it lies in the run's own folder."""


def load(point: Point, references: str) -> Benchmark:
    """Returns the point's benchmark, ready to run. `references`: where what options call {run} lies.

    Raises:
      BadInput: the class cannot be imported, is no benchmark, or does not take these options.
    """
    point = replace(point, options=_resolved(point.options, references))
    if point.implementation == "orbax":
        return OrbaxBenchmark.of(point)
    known = find(point.generator)
    name = known.native if known is not None and known.native else point.generator
    cls = import_class(name)
    if is_orbax_class(cls):
        return OrbaxBenchmark(cls, point.options)
    if not (isinstance(cls, type) and issubclass(cls, Benchmark)):
        raise BadInput(
            f"{name} is not a benchmark", fix="derive it from runtime.benchmarks.benchmark.Benchmark"
        )
    benchmark: Benchmark = cls(make_options(cls, point.options))
    return benchmark


def _resolved(options: Mapping[str, Any], references: str) -> Mapping[str, Any]:
    return {
        name: f"{references}/{value.removeprefix(RUN)}"
        if isinstance(value, str) and value.startswith(RUN)
        else value
        for name, value in options.items()
    }


def make_options(cls: type[Benchmark], options: Mapping[str, Any]) -> Any:
    """Returns an instance of the class's options. Raises BadInput when it refuses them."""
    if not isinstance(getattr(cls, "options_class", None), type):
        raise BadInput(f"{cls.__name__} has no options_class", fix="give it a dataclass with its options")
    try:
        return cls.options_class(**options)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{cls.__name__} does not take these options: {error}") from error
