"""Runs classes made for Orbax's own harness: each block they measure is measured by our recorder."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runtime.benchmarks import torch_group
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.benchmarks.importing import import_class
from runtime.contract.errors import BadInput
from runtime.contract.suite import Point

PREFIX = "orbax.checkpoint._src.testing.benchmarks"
_OF_TORCH = f"{PREFIX}.pytorch_checkpoint_benchmark"
_EXTRA = ("clu", "tensorflow")
"""What Orbax's harness imports, though nothing of it is used here, and Orbax does not install."""


class OrbaxBenchmark(Benchmark):
    """A class derived from Orbax's BenchmarksGenerator, behind our interface.

    Where Orbax keeps the last of several measurements with one name, each is kept here, as an occurrence;
    what the class adds to its metrics by itself becomes samples as well.
    """

    options_class = object

    def __init__(self, cls: type[Any], options: Mapping[str, Any]) -> None:
        """Raises BadInput when the class does not take the options."""
        try:
            super().__init__(cls.options_class.from_dict(dict(options)))
            self._generator = cls(checkpoint_configs=[], options=self.options)
        except (TypeError, ValueError, KeyError) as error:
            raise BadInput(f"{cls.__name__} does not take these options: {error}") from error

    @classmethod
    def of(cls, point: Point) -> OrbaxBenchmark:
        """Returns the point's class, adapted.

        Raises:
          BadInput: it cannot be imported; where packages are missing, the message names the extra.
        """
        missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
        if missing:
            raise BadInput(
                f"{point.generator.rpartition('.')[2]} is Orbax's own and needs {' and '.join(missing)}",
                fix="install slicebench[orbax-classes] where the workers run",
            )
        return cls(import_class(point.generator), point.options)

    def unavailable(self) -> str | None:
        return None if self.options.is_valid() else "Orbax finds these options invalid on this backend"

    def run(self, context: Context) -> None:
        from orbax.checkpoint._src.testing.benchmarks.core import core

        if any(base.__module__ == _OF_TORCH for base in type(self._generator).__mro__):
            torch_group.join()
        theirs = core.TestContext(
            pytree=context.tree,
            path=context.path,
            options=self.options,
            mesh=context.mesh,
            repeat_index=context.repeat,
            local_path=context.local_path,
        )
        with _measured_by(context):
            result = self._generator.test_fn(theirs)
        for name, (value, unit) in result.metrics.results.items():
            operation, _, metric = name.rpartition("::")
            if isinstance(value, int | float):
                context.value(operation or "orbax", f"orbax/{metric}", *_in_our_units(value, unit))
        if result.error is not None:
            raise result.error


def is_orbax_class(cls: object) -> bool:
    """Whether a class was written for Orbax's harness."""
    return isinstance(cls, type) and any(base.__module__.startswith(PREFIX) for base in cls.__mro__)


@contextlib.contextmanager
def _measured_by(context: Context) -> Iterator[None]:
    """Lets `metrics.measure("save")` in Orbax's classes mean our measure: their own would add to the time."""
    from orbax.checkpoint._src.testing.benchmarks.core import metric

    @contextlib.contextmanager
    def measure(self: Any, operation_name: str, metric_keys: Sequence[str] | None = None) -> Iterator[None]:
        with context.measure(operation_name):
            yield

    theirs = metric.Metrics.measure
    metric.Metrics.measure = measure
    try:
        yield
    finally:
        metric.Metrics.measure = theirs


_UNITS = {"s": (1.0, "s"), "ms": (1e-3, "s"), "MB": (2.0**20, "bytes"), "GB": (2.0**30, "bytes")}
"""Orbax's units, binary whatever they are called, as factor and unit of ours."""


def _in_our_units(value: float, unit: str) -> tuple[float, str]:
    factor, ours = _UNITS.get(unit, (1.0, "count"))
    return value * factor, ours
