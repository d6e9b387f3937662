"""Points run one after another; what happens to one is written down and does not touch the next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from runtime import effective, pytree, rounds
from runtime.benchmarks.benchmark import Benchmark, Context
from runtime.contract.disruption import Disruption
from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.names import CHECKPOINTS_FOLDER
from runtime.contract.options import PyTreeCheckpointOptions
from runtime.contract.progress import PointPhase, parse
from runtime.contract.repeats import Adaptive
from runtime.contract.results import PointResult, Sample
from runtime.contract.suite import ArraySpec, CheckpointSpec, MeshSpec, Point, Suite
from runtime.engine import Engine
from runtime.fitting import Fitted, fit_here
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


def test_no_secret_is_written_down_or_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKEN", "hunter22")
    monkeypatch.setenv("SLICEBENCH_SECRET_ENV", "TOKEN")
    passage = run([point(0, "Leaks")])
    assert passage.code is ExitCode.WORKLOAD_FAILED
    assert passage.results[0].cause == "ValueError: " + "x" * 983 + "(reda"
    said = "".join(capfd.readouterr())
    assert "OSError: no (redacted)" in said, "the traceback is told"
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"hunter" not in written + said.encode() and b"\x1b" not in said.encode()


def test_every_repeat_of_every_operation_is_kept(run: Run) -> None:
    passage = run([point(0, "Fine")], repeats=2, warmup=1)
    assert passage.code is ExitCode.DONE
    assert times(passage.samples) == [(0, repeat, op) for repeat in range(3) for op in ("save", "restore")]
    assert {each.repeat for each in passage.samples if each.warmup} == {0}
    assert (passage.results[0].status, passage.results[0].repeats_done) == ("passed", 3)


@pytest.mark.parametrize(
    ("asked", "done", "why"),
    [
        (Adaptive(2, 4, time_s=1e-6), 2, "were over after 2 repeats"),
        (Adaptive(2, 4), 4, "4 repeats are the most that it may do; save: too few for an interval"),
    ],
)
def test_repeats_end_when_enough_is_known(run: Run, asked: Adaptive, done: int, why: str) -> None:
    passage = run([point(0, "Fine"), point(1, "Fine")], repeats=asked.most, warmup=1, adaptive=asked)
    assert [result.repeats_done for result in passage.results] == [done + 1] * 2
    assert all(why in result.stopped for result in passage.results)
    assert len({(each.point, each.repeat) for each in passage.samples}) == 2 * (done + 1)


def test_a_failure_keeps_what_was_measured_and_the_next_point_runs(run: Run) -> None:
    passage = run([point(0, "Fails"), point(1, "Fine")])
    assert passage.code is ExitCode.WORKLOAD_FAILED
    assert times(passage.samples) == [(0, 0, "save"), (1, 0, "save"), (1, 0, "restore")]
    assert [result.status for result in passage.results] == ["failed", "passed"]
    assert passage.results[0].cause == "OSError: disk gone"


def test_a_cause_is_one_line(run: Run) -> None:
    passage = run([point(0, "Fails", options={"message": "first\nsecond"})])
    assert passage.results[0].cause == "OSError: first second"


@pytest.mark.parametrize(
    ("generator", "options", "cause"),
    [
        ("Elsewhere", {}, "needs a moon"),
        ("no.such.Thing", {}, "cannot be imported: ModuleNotFoundError: No module named 'no'"),
        ("json.Thing", {}, "module json has no Thing"),
        ("json.JSONDecoder", {}, "not a benchmark"),
        ("Fine", {"colour": 1}, "does not take these options"),
    ],
)
def test_what_cannot_run_says_why_and_is_no_failure(
    run: Run, generator: str, options: dict[str, Any], cause: str
) -> None:
    passage = run([point(0, generator, options=options), point(1, "Fine")])
    assert passage.code is ExitCode.INFRASTRUCTURE
    assert passage.results[0].status == "not_run"
    assert cause in passage.results[0].cause
    assert passage.results[1].status == "passed"


def test_data_that_cannot_be_made_fails_the_point_alone(run: Run) -> None:
    odd = CheckpointSpec(spec={"w": ArraySpec("float32", (4,), ("data",))})
    passage = run([point(0, "Fine", checkpoint=odd), point(1, "Fine")])
    assert [result.status for result in passage.results] == ["failed", "passed"]
    assert "array w has a sharding" in passage.results[0].cause


def test_first_point_leaves_out_those_before(run: Run) -> None:
    passage = run([point(0, "Fails"), point(1, "Fine")], "--first-point", "1")
    assert [result.point for result in passage.results] == [1]
    assert passage.code is ExitCode.DONE


def test_only_the_points_asked_for_run(run: Run) -> None:
    passage = run([point(0, "Fails"), point(1, "Fine"), point(2, "Fine")], "--points", "2,1")
    assert [result.point for result in passage.results] == [1, 2]
    assert passage.code is ExitCode.DONE


def test_a_point_that_the_suite_has_not_is_refused(run: Run) -> None:
    with pytest.raises(BadInput, match="no point 2 here"):
        run([point(0, "Fine"), point(1, "Fine")], "--points", "0,2")


def test_with_siblings_a_failure_ends_the_session(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--workers", "2", "--worker", "1", "--coordinator", "127.0.0.1:1"]
    passage = run([point(0, "Fails"), point(1, "Fine")], *flags)
    assert passage.code is ExitCode.WORKLOAD_FAILED
    assert [result.point for result in passage.results] == [0]
    assert passage.progress[-1] == PointPhase(
        "end", 0, 2, "b0", "key0", status="failed", cause="OSError: disk gone"
    )


def test_progress_tells_each_step(run: Run) -> None:
    told = [json.loads(json.dumps(vars(each), default=str)) for each in run([point(0, "Fine")]).progress]
    steps = [(each.get("phase"), each.get("operation")) for each in told]
    assert steps == [
        ("begin", None),
        ("begin", "save"),
        ("end", "save"),
        ("begin", "restore"),
        ("end", "restore"),
        ("end", None),
        (None, None),
    ]
    assert told[0]["checkpoint"]["spec"]["layer"]["w"]["shape"] == [16, 8]


def saves(passage: Passage) -> list[tuple[int, int]]:
    return [(point, repeat) for point, repeat, operation in times(passage.samples) if operation == "save"]


def last(passage: Passage) -> dict[int, tuple[str, int, bool]]:
    """What stands of each point: its last result."""
    return {each.point: (each.status, each.repeats_done, each.paused) for each in passage.results}


def test_points_of_a_class_take_turns(run: Run) -> None:
    points = [point(0, "Fine"), point(1, "Fine"), point(2, "Elsewhere"), point(3, "Fine")]
    passage = run(points, repeats=2, warmup=1, interleave=True)
    turns = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (3, 0), (3, 1), (3, 2)]
    assert saves(passage) == turns
    assert last(passage) == {
        0: ("passed", 3, False),
        1: ("passed", 3, False),
        2: ("not_run", 0, False),
        3: ("passed", 3, False),
    }
    phases = [each for each in passage.progress if isinstance(each, PointPhase) and each.point == 0]
    ends = [each.status for each in phases if each.phase == "end"]
    assert ends == ["paused", "paused", "passed"]
    assert passage.code is ExitCode.INFRASTRUCTURE


def test_one_that_fails_leaves_its_turns_to_the_others(run: Run) -> None:
    points = [point(0, "FailsLater"), point(1, "FailsLater"), point(2, "FailsLater")]
    passage = run(points, repeats=3, interleave=True)
    assert saves(passage) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert last(passage) == dict.fromkeys(range(3), ("failed", 1, False))


def test_each_has_as_many_turns_as_it_takes(run: Run) -> None:
    asked = Adaptive(2, 4, time_s=1e-6)
    passage = run([point(0, "Fine"), point(1, "Fine")], repeats=4, adaptive=asked, interleave=True)
    assert saves(passage) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert all("were over after 2 repeats" in each.stopped for each in passage.results if not each.paused)


def test_another_session_goes_on_where_turns_were_left(run: Run, tmp_path: Path) -> None:
    """One point has its result, one has had two of its turns, and one none."""
    with Journal(tmp_path / "scratch/journal.jsonl") as journal:
        for index, status, done, paused in ((0, "failed", 1, False), (1, "not_run", 2, True)):
            told = effective.result(
                point(index, "Fine"),
                run_id="run",
                attempt=1,
                worker=0,
                status=status,  # type: ignore[arg-type]
                cause="it was stopped",
                repeats_done=done,
                paused=paused,
            )
            journal.extend([replace(told, paused=True, status="not_run", repeats_done=1), told])
    passage = run([point(n, "Fine") for n in range(3)], repeats=3, interleave=True)
    assert saves(passage) == [(1, 2), (2, 0), (2, 1), (2, 2)]
    assert last(passage) == {0: ("failed", 1, False), 1: ("passed", 3, False), 2: ("passed", 3, False)}


def test_what_is_disrupted_takes_no_turns() -> None:
    plain, struck = point(0, "A"), point(0, "A", disruption=Disruption(at_step=1))
    order = [plain, plain, struck, struck, plain, point(0, "B"), point(0, "B")]
    found = rounds.groups([Fitted(each, None) for each in order], interleave=True)
    assert [len(group) for group in found] == [2, 1, 1, 1, 2]
    assert [len(group) for group in rounds.groups(found[0], interleave=False)] == [1, 1]


def test_turns_share_one_deadline() -> None:
    one = rounds.Opened(Fitted(point(0, "Fine", deadline_s=60.0), None), [0, 1])
    assert one.point.deadline_s == 60.0
    one.spent_s = 45.0
    assert one.point.deadline_s == 15.0
    one.spent_s = 75.0
    assert one.point.deadline_s == 1.0
    assert rounds.Opened(Fitted(point(0, "Fine"), None), [], spent_s=9.0).point.deadline_s is None


@pytest.mark.parametrize("generator", ["Fine", "Fails"])
def test_checkpoints_go_unless_kept(run: Run, tmp_path: Path, generator: str) -> None:
    checkpoints = tmp_path / "run" / CHECKPOINTS_FOLDER
    local = tmp_path / "local"
    run([point(0, generator)], "--local-directory", str(local))
    assert not [*checkpoints.iterdir(), *local.iterdir()]
    run([point(0, generator)], "--keep-checkpoints")
    assert (checkpoints / "key0" / "repeat_0").is_dir()


def test_what_a_checkpoint_takes_on_disk_is_a_sample(run: Run) -> None:
    samples = run([point(0, "Fine")]).samples
    stored = {each.metric: each.value for each in samples if each.operation == "checkpoint"}
    assert stored == {"files": 1, "stored_bytes": 5}


def native_options(**options: Any) -> dict[str, Any]:
    return vars(PyTreeCheckpointOptions(**options))


def test_a_restore_that_is_not_what_was_saved_fails_and_names_the_leaf(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte changes on the disk after the save, where nothing but our comparison can notice."""
    plain = pytree.free

    def corrupt(tree: Any) -> None:
        plain(tree)
        folder = tmp_path / "run" / CHECKPOINTS_FOLDER / "key0" / "repeat_0" / "pytree" / "layer.w"
        chunk = folder / "0.0"
        if chunk.exists():
            content = bytearray(chunk.read_bytes())
            content[-1] ^= 1
            chunk.write_bytes(content)

    monkeypatch.setattr(pytree, "free", corrupt)
    options = native_options(use_ocdbt=False, use_zarr3=False, use_compression=False)
    passage = run([point(0, PYTREE, options=options)])
    assert passage.results[0].status == "failed"
    assert "restored leaf layer.w is not what was saved: element [15, 7]" in passage.results[0].cause
    assert times(passage.samples)[-1] == (0, 0, "restore")


def test_a_mesh_that_fits_nothing_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no mesh fits"):
        fit_here([point(0, PYTREE, options=native_options(), mesh=MeshSpec(("data",), {"data": 999}))])


def test_points_that_fit_are_numbered_anew(capsys: pytest.CaptureFixture[str]) -> None:
    import jax

    sizes = (999, jax.device_count())
    points = [
        point(i, PYTREE, options=native_options(), mesh=MeshSpec(("data",), {"data": size}))
        for i, size in enumerate(sizes)
    ]
    fitted = fit_here(points)
    assert [(each.point.index, each.point.benchmark) for each in fitted] == [(0, "b1")]
    assert "999 devices" in capsys.readouterr().err
