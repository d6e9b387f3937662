"""Passages of the engine over benchmarks that do what a test needs, and what each leaves behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.errors import ExitCode
from runtime.contract.progress import parse
from runtime.contract.repeats import Adaptive
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import ArraySpec, CheckpointSpec, Point, Suite
from runtime.engine import Engine
from runtime.fitting import Fitted
from runtime.progress_out import ProgressWriter
from runtime.results_io import Journal
from runtime.settings import parse as parse_settings

DATA = CheckpointSpec(spec={"step": "int", "layer": {"w": ArraySpec("float32", (16, 8))}})
PYTREE = "orbax.checkpoint._src.testing.benchmarks.pytree_checkpoint_benchmark.PyTreeCheckpointBenchmark"


@dataclass(frozen=True)
class NoOptions:
    """Options of the classes below."""

    message: str = ""


class Fine(Benchmark):
    """Does what it should."""

    options_class = NoOptions

    def run(self, context: Context) -> None:
        with context.measure("save"):
            (context.path / "data").write_text("12345")
        with context.measure("restore"):
            pass
        context.verify(context.tree)


class Fails(Fine):
    """Raises after its first operation."""

    def run(self, context: Context) -> None:
        with context.measure("save"):
            pass
        with context.measure("restore"):
            raise OSError(self.options.message or "disk gone")


class Leaks(Fine):
    """Prints a secret, and raises with it at the place where long messages are cut."""

    def run(self, context: Context) -> None:
        try:
            raise OSError(f"no {os.environ['TOKEN']}\x1b[2J")
        except OSError as error:
            raise ValueError("x" * 983 + os.environ["TOKEN"]) from error


class FailsLater(Fine):
    """Fails in its second repeat."""

    def run(self, context: Context) -> None:
        super().run(context)
        if context.repeat == 1:
            raise OSError("disk gone")


class Elsewhere(Fine):
    """Cannot run here."""

    def unavailable(self) -> str | None:
        return "needs a moon"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets points name the classes above."""
    from runtime.benchmarks import loading

    classes = {cls.__name__: cls for cls in (Fine, Fails, FailsLater, Leaks, Elsewhere)}
    plain = loading.import_class
    monkeypatch.setattr(loading, "import_class", lambda name: classes.get(name) or plain(name))


def point(index: int, generator: str, *, options: dict[str, Any] | None = None, **more: Any) -> Point:
    implementation = "native" if generator == PYTREE else "user"
    base = Point(index, f"b{index}", f"key{index}", generator, implementation, options or {}, None, DATA)  # type: ignore[arg-type]
    return replace(base, **more)


@dataclass
class Passage:
    """What a run of the engine left behind."""

    code: ExitCode
    samples: list[Sample] = field(default_factory=list)
    results: list[PointResult] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)


Run = Callable[..., Passage]


@pytest.fixture
def run(tmp_path: Path, known: None) -> Run:
    def go(
        points: Sequence[Point],
        *flags: str,
        repeats: int = 1,
        warmup: int = 0,
        adaptive: Adaptive | None = None,
        interleave: bool = False,
    ) -> Passage:
        settings = parse_settings(["s.yaml", "--output", str(tmp_path / "run"), *flags], {})
        suite = Suite(
            "s.yaml", "s", (), num_repeats=repeats, warmup=warmup, adaptive=adaptive, interleave=interleave
        )
        said = tmp_path / "progress"
        with said.open("wb") as file, Journal(tmp_path / "scratch/journal.jsonl") as journal:
            engine = Engine(settings, suite, journal, ProgressWriter(file.fileno()), tmp_path / "scratch")
            code = engine.run([Fitted(each, None) for each in points])
        passage = Passage(code, progress=[parse(line) for line in said.read_bytes().splitlines()])
        for record in Journal.read(tmp_path / "scratch/journal.jsonl"):
            (passage.samples if isinstance(record, Sample) else passage.results).append(record)  # type: ignore[arg-type]
        return passage

    return go


def times(samples: Iterable[Sample]) -> list[tuple[int, int, str]]:
    return [(each.point, each.repeat, each.operation) for each in samples if each.metric == "time_s"]
