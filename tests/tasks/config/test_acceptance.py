"""Acceptance files: every mistake is told at its place; runs and their names follow from file and id alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.config.acceptance import AcceptanceConfig
from tasks.config.acceptance_turns import Session, checked_id, digest, new_id
from tasks.config.load import load_acceptance
from tasks.config.run_names import checked_run_id
from tasks.config.schemas import acceptance_schema
from tasks.history.acceptance import LIMIT

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "configs" / "acceptance").glob("*.yaml"))
SCHEMA = jsonschema.Draft202012Validator(acceptance_schema())
KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

IDLE = "idle, encryption: {enabled: false}"
GOOD = f"""\
name: mine
target: local
output: gs://b/runs
checkpoints: 2
repeats: 2
variants:
  - name: none
  - {{name: idle, encryption: {{enabled: false}}}}
  - {{name: own, encryption: {{keys: {{bkt: {KEY}}}}}}}
  - {{name: other, encrypts: true, sidecar: {{name: p, command: [p, "{{port}}"]}}}}
"""


def loaded(tmp_path: Path, text: str) -> AcceptanceConfig:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    return load_acceptance(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_acceptance_is_right(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text()))
    config = load_acceptance(path)
    assert config.base.name == "no-proxy" and any(one.is_encrypting for one in config.variants)


def test_a_file_that_is_silent_allows_five_percent(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD).limit == LIMIT == 0.05


def test_the_schema_takes_what_the_reader_takes(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(acceptance_schema())
    SCHEMA.validate(yaml.safe_load(GOOD))
    config = loaded(tmp_path, GOOD)
    assert [one.is_encrypting for one in config.variants] == [False, False, True, True]
    assert [one.is_base for one in config.variants] == [True, False, False, False]
    assert dict(config.variants[2].beside) == {"encryption": {"keys": {"bkt": KEY}}}


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("checkpoints: 2", "checkpoints: 0", 4, "checkpoints must be"),
        ("checkpoints: 2", "limit: .nan", 4, "limit"),
        ("checkpoints: 2", "limit: -0.1", 4, "limit"),
        ("checkpoints: 2", "limit: 5", 4, "write 0.05 for 5 %"),
        ("repeats: 2", "repeats: 0", 5, "repeats must be"),
        ("repeats: 2", "limits: {run: 5}", 5, "run must be"),
        ("name: mine", "name: My Own", 1, "name must be a name"),
        ("name: idle", "name: off", 8, "not false, put it in quotes"),
        ("name: mine", "name: 1", 1, "not 1"),
        ("name: idle", "name: none", 6, "two are called none"),
        ("- name: none", "- {name: none, encryption: {keys: {bkt: x}}}", 7, "key"),
        ("  - name: none\n", "", 6, "one must have no sidecar"),
        (IDLE, "idle", 6, "none and idle are alike"),
        (IDLE, f"idle, encryption: {{keys: {{bkt: {KEY}}}}}", 6, "idle and own are alike"),
        (IDLE, "idle, encrypts: true", 8, "nothing that could encrypt"),
        (IDLE, "idle, encrypts: true, encryption: {enabled: false}", 8, "leave it out"),
        ("enabled: false}}", "enabled: false}, sidecar: {name: p, command: [p]}}", 8, "two variants"),
        ("enabled: false", "enabled: true", 8, "names no bucket"),
        ("target: local", "targets: [local]", 2, "target"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(tmp_path: Path, old: str, new: str, line: int, told: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as refused:
        loaded(tmp_path, GOOD.replace(old, new, 1))
    problems = refused.value.problems
    assert any(told in str(one) and one.place is not None and one.place.line == line for one in problems), [
        str(one) for one in problems
    ]


def session(tmp_path: Path, text: str = GOOD) -> Session:
    return Session(loaded(tmp_path, text), "1129-235533", str(tmp_path / "a.yaml"), "gs://b/runs", "/t")


def test_runs_take_turns_after_one_that_is_not_stopped(tmp_path: Path) -> None:
    turns = session(tmp_path).turns()
    assert [turn.title for turn in turns] == [
        "reference",
        *("none · 1", "idle · 1", "own · 1", "other · 1"),
        *("other · 2", "own · 2", "idle · 2", "none · 2"),
    ]
    stops = [turn.run.request.stop_after_checkpoints for turn in turns]
    assert stops == [None, *[2] * 8]
    names = ("none", "idle", "own", "other")
    assert {turn.run.request.target for turn in turns} == {f"/t/{name}.yaml" for name in names}
    ids = [turn.run.run_id for turn in turns]
    assert ids[:2] == ["mine-1129-235533-reference", "mine-1129-235533-none-1"] and len(set(ids)) == 9
    short = session(tmp_path, GOOD.replace("repeats: 2", "reference: false"))
    assert next(turn.title for turn in short.turns()) == "none · 1"


def test_the_longest_names_are_names_of_runs(tmp_path: Path) -> None:
    long = GOOD.replace("name: mine", f"name: {'m' * 26}").replace("name: own", f"name: {'o' * 20}")
    for turn in session(tmp_path, long.replace("repeats: 2", "repeats: 20")).turns():
        checked_run_id(turn.run.run_id)


def test_ids_are_parts_of_names() -> None:
    assert checked_id(new_id(datetime(2026, 11, 29, 23, 55, 33, tzinfo=UTC))) == "1129-235533"
    for bad in ("", "Up", "a_b", "-a", "a-", "x" * 12, "a/b"):
        with pytest.raises(BadInput, match="not a name"):
            checked_id(bad)


def test_what_is_asked_for_tells_files_apart(tmp_path: Path) -> None:
    assert digest(loaded(tmp_path, GOOD)) == digest(loaded(tmp_path, f"# another\n{GOOD}"))
    assert digest(loaded(tmp_path, GOOD)) != digest(loaded(tmp_path, GOOD.replace("checkpoints: 2", "")))
