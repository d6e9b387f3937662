"""Points run one after another; what happens to one is written down and does not touch the next."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from etils import epath

from runtime import folders, pytree
from runtime.contract.errors import BadInput, ExitCode
from runtime.contract.names import CHECKPOINTS_FOLDER
from runtime.contract.options import PyTreeCheckpointOptions
from runtime.contract.progress import PointPhase
from runtime.contract.repeats import Adaptive
from runtime.contract.suite import ArraySpec, CheckpointSpec, MeshSpec
from runtime.fitting import fit_here
from tests.runtime.passages import PYTREE, Run, known, point, run, times

__all__ = ["known", "run"]


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


@pytest.mark.parametrize("generator", ["Fine", "Fails"])
def test_checkpoints_go_unless_kept(run: Run, tmp_path: Path, generator: str) -> None:
    checkpoints = tmp_path / "run" / CHECKPOINTS_FOLDER
    local = tmp_path / "local"
    run([point(0, generator)], "--local-directory", str(local))
    assert not [*checkpoints.iterdir(), *local.iterdir()]
    run([point(0, generator)], "--keep-checkpoints")
    assert (checkpoints / "key0" / "repeat_0").is_dir()


@pytest.mark.parametrize("generator", ["Fails", "Fine"])
def test_a_folder_that_stays_does_not_hide_what_failed(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], generator: str
) -> None:
    def refuse(path: epath.Path) -> None:
        if path.exists():
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(folders, "remove", refuse)
    (result,) = run([point(0, generator)]).results
    stays = "Read-only file system"
    assert result.status == "failed"
    assert result.cause == ("OSError: disk gone" if generator == "Fails" else f"OSError: [Errno 30] {stays}")
    assert stays in capfd.readouterr().err


def test_a_folder_that_comes_again_is_gone_at_the_end(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, came = folders.remove, []

    def remove(path: epath.Path) -> None:
        real(path)
        if path.name == "repeat_0" and not came:
            came.append(path)
        elif came and not came[0].exists() and path.name == "repeat_1":
            came[0].mkdir(parents=True)
            (came[0] / "late").write_text("6")

    monkeypatch.setattr(folders, "remove", remove)
    run([point(0, "Fine")], repeats=2)
    assert came and not [*(tmp_path / "run" / CHECKPOINTS_FOLDER).iterdir()]


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
