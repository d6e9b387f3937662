"""Files that a newer version wrote, with keys this one does not know, are read as if these were not there."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import InfrastructureError
from runtime.results_io import Journal
from tasks.cloud.ssh_book import AddressBook
from tasks.cloud.ssh_endpoint import Endpoint, Host
from tasks.cloud.storage import open_folder
from tasks.cloud.venvs import Venv, read_venv
from tasks.history.effect import Effect
from tasks.history.reading import load_points, load_verdicts
from tasks.history.results import AttemptEnd, PointOutcome, Results, Trouble, WorkerPoint
from tasks.history.verdict import SeriesVerdict, Verdict, Verdicts
from tasks.leases import steps
from tasks.leases.ledger import decode, encode
from tasks.leases.owner import this_process
from tasks.leases.resource import ResourceRef
from tasks.leases.tpu_entries import Entry, read
from tasks.stages.attempts import Started, read_attempts, write_attempts
from tasks.stages.collect import read_parts
from tasks.stages.run import outcome_of
from tasks.targets.types import Attempt, WorkloadRef
from tests.tasks.history.making import make_result, make_run, write_parts


def newer(content: Any) -> Any:
    """Adds a key to every object of a JSON value."""
    if isinstance(content, dict):
        return {"of_a_newer_version": 1} | {name: newer(value) for name, value in content.items()}
    return [newer(one) for one in content] if isinstance(content, list) else content


def rewrite(file: Path, change: Callable[[Any], Any] = newer) -> None:
    """Rewrites a file of JSON, or of JSON lines."""
    if file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        file.write_text("".join(json.dumps(change(json.loads(line))) + "\n" for line in lines))
    else:
        file.write_text(json.dumps(change(json.loads(file.read_text()))))


def test_results_and_verdicts(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    outcome = PointOutcome(0, "b", "k", "g", "native", "failed", "why", 1, (WorkerPoint(0, "failed", "why"),))
    results = Results(
        "r", "s", "local", 1, (outcome,), (Trouble("missing", "gone"),), (AttemptEnd(1, "failed"),)
    )
    effect = Effect(**dict.fromkeys((field.name for field in dataclasses.fields(Effect)), 1.0))  # type: ignore[arg-type]
    names = {field.name: "x" for field in dataclasses.fields(SeriesVerdict)}
    series = SeriesVerdict(**names | {"verdict": Verdict.PASS, "effect": effect})  # type: ignore[arg-type]
    verdicts = Verdicts("r", Verdict.PASS, "why", (series,))
    for name, text in (("points.json", results.to_json()), ("verdicts.json", verdicts.to_json())):
        folder.write(name, text.encode())
        rewrite(tmp_path / name)
    read, judged = load_points(folder), load_verdicts(folder)
    assert read is not None and [point.cause for point in read.points] == ["why"]
    assert (read.troubles, read.attempts) == ([Trouble("missing", "gone")], [AttemptEnd(1, "failed")])
    assert judged is not None and judged.series == [series]
    rewrite(tmp_path / "points.json", lambda content: {**content, "points": [{"point": 0, "workers": []}]})
    with pytest.raises(InfrastructureError, match=r"points\.json is damaged"):
        load_points(folder)


def test_what_workers_deliver(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    write_parts(run.folder, [], [make_result()])
    file = next(Path(run.folder.uri).rglob("points-*.jsonl"))
    rewrite(file)
    parts = read_parts(run)
    assert (parts.troubles, [len(points) for points in parts.points.values()]) == ([], [1])
    rewrite(file, lambda content: {name: value for name, value in content.items() if name != "status"})
    assert [trouble.kind for trouble in read_parts(run).troubles] == ["damaged"]


def test_journals(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    with Journal(file) as journal:
        journal.append(make_result())
    rewrite(file, lambda content: {**content, "of_a_newer_version": 1})
    assert list(Journal.read(file)) == [make_result()]


def test_attempts_and_what_the_stage_run_wrote_down(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    ref = WorkloadRef("local", "here", "n", "u", 1, ("/s",))
    write_attempts(run, [Started(1, ref, "failed", "why")])
    run.mark("run", attempts=[{"n": 1, "end": "failed", "cause": "why"}], results="r")
    for name in ("attempts.json", "stages/run.json"):
        rewrite(Path(run.folder.uri, name))
    assert [(one.n, one.ref and one.ref.uid, one.end) for one in read_attempts(run)] == [(1, "u", "failed")]
    outcome = outcome_of(run)
    assert outcome is not None and outcome.attempts == [Attempt(1, "failed", "why")]
    run.mark("run", attempts=[{"n": 1}], results="r")
    with pytest.raises(InfrastructureError, match=r"stages/run\.json is damaged .* --from run"):
        outcome_of(run)


def test_venvs(tmp_path: Path) -> None:
    venv = Venv("k", str(tmp_path / "bin" / "python"), {"jax": "1"}, {"jax": "1"}, 1.0, 2.0)
    content = dataclasses.asdict(venv)
    mark = tmp_path / "complete.json"
    mark.write_text(json.dumps(content | {"of_a_newer_version": 1}))
    assert read_venv(tmp_path) == venv
    del content["key"]
    mark.write_text(json.dumps(content))
    assert read_venv(tmp_path) is None


def test_leases() -> None:
    lease = steps.intend(steps.plan("run", "run", 1, this_process(), 1.0, 2.0), ResourceRef("node", "z", "n"))
    assert decode(json.dumps(newer(json.loads(encode(lease))) | {"shape": {}}), "here") == lease


def test_hosts(tmp_path: Path) -> None:
    book, host = AddressBook(tmp_path), Host(Endpoint("h", "u", keys=("/k",)))
    book.remember(host)
    rewrite(next(tmp_path.iterdir()))
    assert book.find(str(host)) == host


def test_locks_at_tpus() -> None:
    entry = Entry("run-1-e1", "ledger", "somebody", "ssh-ed25519 AAAA", 1.0, 2.0)
    written = json.dumps(newer(dataclasses.asdict(entry)))
    assert read({"slicebench-lock": written}) == entry, "a TPU that is in use would look free"
