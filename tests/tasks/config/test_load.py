"""Target files: every problem at its place, all of them at once; every shipped target loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.config.load import load_target
from tasks.config.locate import config_folders

SHIPPED = sorted({file for folder in config_folders("targets") for file in folder.glob("*.yaml")})


def _target(folder: Path, text: str) -> Path:
    path = folder / "t.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_target_loads(path: Path) -> None:
    assert load_target(path).kind in ("local", "ssh", "tpu_vm", "gke")


def test_all_problems_are_told_at_their_places(tmp_path: Path) -> None:
    path = _target(tmp_path, "kind: local\nworkers: none\nworker: 2\nslices: 0\n")
    with pytest.raises(BadInput) as refusal:
        load_target(path)
    told = sorted(str(problem).removeprefix(str(path)) for problem in refusal.value.problems)
    assert told == [
        ":2:1: workers must be a whole number, not 'none'",
        ":3:1: unknown key 'worker', did you mean 'workers'?",
        ":4:1: slices must be at least 1, not 0",
    ]


def test_a_field_that_may_be_one_of_several_things_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refusal:
        load_target(_target(tmp_path, "kind: local\ndevices_per_worker: many\n"))
    (problem,) = refusal.value.problems
    assert problem.what == "devices_per_worker must be a whole number or auto, not 'many'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "kind: local\ndevices_per_worker: 0\n",
            ":2:1: devices_per_worker must be at least 1 or auto, not 0",
        ),
        ("workers: 2\n", "needs a kind"),
        ("kind: lokal\n", "'lokal' is no kind of target"),
        ("kind: [local]\n", "no kind of target"),
        ("- local\n", "needs a kind"),
        ("kind: local\nkind: local\n", ":2:1: .*kind"),
        ("kind: [\n", "t.yaml:"),
        ("", "empty"),
    ],
)
def test_what_is_no_target_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        load_target(_target(tmp_path, text))


def test_a_request_chooses_over_the_file(tmp_path: Path) -> None:
    target = load_target(_target(tmp_path, "kind: local\nworkers: 2\n"))
    assert target.with_choices(3, None).workers == 3
    assert target.with_choices(None, 4).devices_per_worker == 4
    assert target.with_choices(None, None) == target
    with pytest.raises(BadInput, match="--workers must be at most 64, not 65"):
        target.with_choices(65, None)
