"""What a benchmark is: a class with options and a method that measures. Derive from Benchmark to add one."""

from __future__ import annotations

import abc
import contextlib
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from runtime import page_cache, pytree, verify
from runtime.contract.errors import SlicebenchError
from runtime.contract.metrics import CACHED
from runtime.contract.roles import reads
from runtime.contract.suite import Point
from runtime.measure import Block, Recorder

if TYPE_CHECKING:
    import jax
    from etils import epath

    from runtime.steps import Steps


class NotRun(SlicebenchError):
    """A point cannot run here, for a reason that lies outside of what it measures; every worker must say so."""


@dataclass
class Context:
    """All that a benchmark may need during one repeat.

    Attributes:
      point: what is run.
      repeat: which repeat this is, from 0.
      path: an empty folder of this repeat alone, shared by all workers; gone afterwards.
      mesh: the devices, as the point lays them out; None without a mesh.
      tree: the data to save, on the devices; None when the point names no checkpoint, or has `steps`.
      local_path: this host's own folder for local tiers, or None.
      steps: in a point that is disrupted, and of a benchmark that `resumes`, what is to be told of every step.
    """

    point: Point
    repeat: int
    path: epath.Path
    recorder: Recorder
    mesh: jax.sharding.Mesh | None = None
    tree: pytree.Tree = None
    expected: verify.Expectation | None = None
    local_path: epath.Path | None = None
    steps: Steps | None = None

    def begin_step(self, step: int) -> pytree.Tree:
        """Returns the data of a step, on the devices until the next begins: only disrupted points have other data in
        each."""
        return self.tree if self.steps is None else self.steps.begin(step)

    def saved_step(self, step: int) -> None:
        """To be called when the checkpoint of a step is complete."""
        if self.steps is not None:
            self.steps.saved(step)

    @property
    def restarted(self) -> bool:
        """Whether workers were killed in the middle of this repeat, and it has to go on from a checkpoint."""
        return self.steps is not None and self.steps.restart is not None

    def free(self) -> None:
        """Gives the memory of the data back."""
        pytree.free(self.tree)
        if self.steps is not None:
            pytree.free(self.steps.tree)

    @contextlib.contextmanager
    def measure(
        self, operation: str, *, payload_bytes: int | None = None, in_background: bool = False
    ) -> Iterator[Block]:
        """Times the block as `operation`; with its bytes, also how fast they moved.

        A block that only begins what goes on `in_background` says nothing of that: `recorder.throughput`
        does, once the rest was waited for in a block of its own. Where the point asks for it
        (`metric_tracemalloc_enabled`), Python's allocations are traced too, which takes time: such samples
        compare only with their like.
        """
        measured = self.recorder.measure(operation, payload_bytes=payload_bytes, in_background=in_background)
        if not tracemalloc.is_tracing():
            with self._seen_in_cache(operation), measured as block:
                yield block
            return
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        with self._seen_in_cache(operation), measured as block:
            yield block
        _, peak = tracemalloc.get_traced_memory()
        self.recorder.value(operation, "tracemalloc_peak_bytes", peak - before, "bytes")

    @contextlib.contextmanager
    def _seen_in_cache(self, operation: str) -> Iterator[None]:
        """Before something is read, has the page cache as the point wants it, and writes down how it was."""
        places = [str(path) for path in (self.path, self.local_path) if path and "://" not in str(path)]
        if not reads(operation) or not places:
            yield
            return
        asked = self.point.page_cache
        if asked == "drop" and not page_cache.drop_everything():
            asked = "cold"
        if asked == "cold":
            page_cache.evict(places)
        share = page_cache.cached_share(places)
        yield
        if share is not None:
            self.recorder.value(operation, CACHED, share, "1")

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Traces Python's allocations for a whole repeat, if the point asks for it.

        Not block by block: Python before 3.12.9 crashes when tracing stops while threads of native code allocate,
        and between the two parts of an asynchronous save they do.
        """
        if not self.point.options.get("metric_tracemalloc_enabled"):
            yield
            return
        tracemalloc.start()
        try:
            yield
        finally:
            tracemalloc.stop()

    def value(self, operation: str, metric: str, value: float, unit: str) -> None:
        """Records a number that the benchmark found itself, beside those of `operation`."""
        self.recorder.value(operation, metric, value, unit)

    def verify(self, restored: pytree.Tree, *, leaf: str | None = None, same_sharding: bool = True) -> None:
        """Proves, outside of any measured block, that `restored` is the point's tree bit for bit.

        With `leaf`, that it is this one array of the tree. Raises NotEqual naming the first leaf that is not.
        """
        if self.expected is None:
            raise RuntimeError("this benchmark has no data of its own to compare with")
        expected = self.expected
        if leaf is not None:
            expected, restored = {leaf: expected[leaf]}, {leaf: restored}
        verify.check(expected, restored, same_sharding=same_sharding)


class Benchmark(abc.ABC):
    """Base of all benchmarks, ours and users'.

    `options_class` is a frozen dataclass whose fields are what a suite may set; a list in the suite sweeps.
    """

    options_class: ClassVar[type]
    resumes: ClassVar[bool] = False
    """Whether it goes on from its checkpoints whatever stopped it: then it has `steps` in every point, and makes what
    it saves itself."""

    def __init__(self, options: Any) -> None:
        """`options` is an instance of `options_class`."""
        self.options = options

    def place(self, context: Context) -> epath.Path:
        """Returns where what it saved lies at the end of a repeat, to be counted."""
        return context.path

    def unavailable(self) -> str | None:
        """Says why this benchmark cannot run on the machines at hand; None when it can."""
        return None

    @abc.abstractmethod
    def run(self, context: Context) -> None:
        """Does one repeat: what is timed stands in `context.measure`, what was restored is verified."""
