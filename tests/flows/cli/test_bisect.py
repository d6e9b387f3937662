"""`slicebench bisect` finds the commit, or the JAX, that made a series slower, and goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from tasks.config.nightly_cells import CellRun
from tasks.stages.collect import collect
from tasks.stages.history import open_history
from tasks.stages.nightly_run import Hands, RunEnd
from tests.tasks.cloud.test_git import commit, git
from tests.tasks.history.dataset.making import row
from tests.tasks.history.making import make_result, make_run, make_samples, write_parts

COMMITS = 12
FIRST_BAD = 8


@dataclass
class World:
    """A repository, the history of a series that got slower, and what its builds take when they are run."""

    folder: Path
    repo: Path
    shas: list[str]
    runs: list[str] = field(default_factory=list)
    seconds: Callable[[CellRun], float | None] = lambda one: 1.0

    def of(self, one: CellRun) -> int:
        """Returns which of the commits a run is of."""
        return self.shas.index(str(one.request.commit))

    def measure(self, one: CellRun, hands: Hands, *_: Any) -> RunEnd:
        """Leaves a run behind as the command would; it must not be recorded as a night."""
        assert "SLICEBENCH_HISTORY" not in hands.environ
        assert (one.request.history, one.request.night) == (None, None)
        output = str(one.request.output)
        end = RunEnd(one.run_id, f"{output}/{one.run_id}", one.cell.target, "passed", 0)
        if Path(end.folder).exists():
            return end
        self.runs.append(one.run_id)
        took = self.seconds(one)
        if took is None:
            return RunEnd(one.run_id, end.folder, one.cell.target, "not_run", 3, ["it does not build"])
        run = make_run(output, run_id=one.run_id)
        run.folder.write("request.json", json.dumps({"request": {}, "created_at": 1.8e9}).encode())
        samples = make_samples([[took] * 3] * 2, run_id=one.run_id)
        write_parts(run.folder, samples, [make_result(n, run_id=one.run_id) for n in (0, 1)])
        collect(run)
        return end


@pytest.fixture(scope="module")
def orbax(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository, and its commits from the first on."""
    repo = tmp_path_factory.mktemp("repo") / "orbax"
    (repo / "checkpoint").mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    return repo, [commit(repo, f"change {n}") for n in range(COMMITS)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orbax: tuple[Path, list[str]]) -> World:
    made = World(tmp_path, *orbax)
    monkeypatch.setenv("SLICEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SLICEBENCH_HISTORY", str(tmp_path / "history"))
    monkeypatch.setattr("tasks.stages.bisect.measure", made.measure)
    return made


def record(world: World, good: dict[str, str], bad: dict[str, str], nights: int = 20) -> str:
    """Records nights of which the last two are slower, measured with these versions; returns the series' id."""
    dataset = open_history(None)
    origin = world.folder / "nightly" / "bad"
    origin.mkdir(parents=True)
    request = {"suite": "mine", "target": "local", "run_id": "x", "repo": str(world.repo)}
    (origin / "request.json").write_text(json.dumps({"request": request | {"night": "2026-11-20"}}))
    (origin / "suite.yaml").write_text("suite_name: mine\n")
    for n in range(nights):
        slow = n >= nights - 2
        made = row(
            n,
            [(1.1 if slow else 1.0) + 0.002 * (n % 3)] * 3,
            versions=json.dumps(bad if slow else good),
            origin=str(origin),
        )
        dataset.append([made])
    return str(made["series"])


def by_commit(world: World, broken: frozenset[int] = frozenset()) -> None:
    def seconds(one: CellRun) -> float | None:
        n = world.of(one)
        return None if n in broken else 1.1 if n >= FIRST_BAD else 1.0

    world.seconds = seconds


def test_the_commit_is_found_and_the_same_command_runs_nothing_twice(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    series = record(world, {"commit": world.shas[0]}, {"commit": world.shas[-1]})
    by_commit(world)
    assert main(["bisect", series]) == 0
    told = capsys.readouterr().out
    assert f"it was {world.shas[FIRST_BAD][:12]} change {FIRST_BAD} (+10 % from first to last)" in told
    count = len(world.runs)
    assert count <= 10
    assert main(["bisect", series, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"]["kind"] == "Found" and found["answer"]["first_bad"] == FIRST_BAD
    assert len(found["runs"]) == count == len(world.runs)


def test_builds_that_cannot_run_are_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    series = record(world, {"commit": world.shas[0]}, {"commit": world.shas[-1]})
    by_commit(world, broken=frozenset({7, 8}))
    assert main(["bisect", series]) == 0
    told = capsys.readouterr().out
    assert "it was one of these 3, of which all but the last cannot run (+10 %)" in told
    assert "change 7" in told and "change 9" in told and "it does not build" in told


def test_an_end_that_cannot_run_is_exit_code_3(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    series = record(world, {"commit": world.shas[0]}, {"commit": world.shas[-1]})
    by_commit(world, broken=frozenset({0}))
    assert main(["bisect", series]) == 3
    assert "change 0 cannot run" in capsys.readouterr().out


def test_where_the_builds_are_alike_here_it_is_not_the_builds(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    series = record(world, {"commit": world.shas[0]}, {"commit": world.shas[-1]})
    assert main(["bisect", series]) == 0
    assert "it is not the builds" in capsys.readouterr().out


def test_jax_is_told_from_the_commits(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    series = record(
        world,
        {"commit": world.shas[0], "jax": "0.10.0", "jaxlib": "0.10.0"},
        {"commit": world.shas[2], "jax": "0.10.2", "jaxlib": "0.10.2"},
    )
    world.seconds = lambda one: 1.0 if one.request.jax_version == "0.10.0" else 1.1
    assert main(["bisect", series, "--jax", "0.10.1"]) == 0
    assert "it was JAX 0.10.1 (" in capsys.readouterr().out


def test_dry_run_lists_the_builds_and_runs_none(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    series = record(world, {"commit": world.shas[3]}, {"commit": world.shas[5]})
    assert main(["bisect", series, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{world.shas[n][:12]} change {n}" for n in (3, 4, 5)]
    assert world.runs == []


@pytest.mark.parametrize(
    ("good", "bad", "words", "told"),
    [
        ({}, {}, [], "no version differs"),
        ({"orbax-checkpoint": "1"}, {"orbax-checkpoint": "2"}, [], "orbax-checkpoint 1 → 2"),
        ({"commit": "0" * 40}, {"commit": "1" * 40}, [], "has no commit 0000"),
        ({"jax": "1"}, {"jax": "2"}, ["--good", "2026-11-30"], "has no value that counts"),
        ({}, {"commit": "1" * 40}, [], "the commit of the good night is not known"),
        ({"commit": "1" * 40}, {"commit": "1" * 40}, ["--jax", "0.9"], "JAX is the same in both nights"),
    ],
)
def test_what_cannot_be_told_by_builds_is_refused_before_anything_runs(
    world: World,
    capsys: pytest.CaptureFixture[str],
    good: dict[str, str],
    bad: dict[str, str],
    words: list[str],
    told: str,
) -> None:
    series = record(world, good, bad)
    assert main(["bisect", series, *words]) == 2
    assert told in capsys.readouterr().err
    assert world.runs == []


def test_a_series_that_never_got_worse_asks_for_nights(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    series = record(world, {"commit": world.shas[0]}, {"commit": world.shas[1]}, nights=4)
    assert main(["bisect", series]) == 2
    assert "never got worse" in capsys.readouterr().err


def test_commits_that_are_on_no_common_branch_are_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    series = record(world, {"commit": world.shas[5]}, {"commit": world.shas[2]})
    assert main(["bisect", series]) == 2
    assert "is no ancestor of" in capsys.readouterr().err
