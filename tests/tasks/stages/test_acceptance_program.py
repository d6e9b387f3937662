"""Acceptances of somebody's own program: created, deleted and created again, by a stand-in of those commands."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import BadInput
from tasks.cloud.storage import open_folder
from tasks.history.acceptance_log import read_log
from tasks.stages import acceptance_program
from tasks.stages.acceptance import open_acceptance, play_acceptance
from tasks.stages.acceptance_plan import NAME, plan_session
from tasks.stages.acceptance_program import Play, _Heard, next_pass, play_program, standing
from tasks.stages.acceptance_record import AcceptanceRecord
from tasks.stages.nightly_run import Hands, Watch
from tasks.targets import gke_access

STUB = Path(__file__).with_name("program_stub.py")
KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"


class Programs:
    """A folder with an acceptance of a program, and what the commands that play it were called for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, **fields: Any) -> str:
        (self.folder / "there.yaml").write_text(
            "kind: gke\ncontext: c\ntype: cpu\nnodes: 1\nqueue: null\npriority: null\n"
        )
        program = {
            "image": f"registry.invalid/train@sha256:{'0' * 64}",
            "command": ["train", "{checkpoints}"],
            "checkpoints": f"{self.folder}/saved/{{run}}",
            "after": 2,
        }
        proxy = {"name": "p", "image": f"registry.invalid/proxy@sha256:{'1' * 64}", "port": 9080}
        content = {
            "name": "own",
            "target": "./there.yaml",
            "training": program | fields.pop("training", {}),
            "output": str(self.folder / "runs"),
            "checkpoints": 2,
            "reference": False,
            "variants": [{"name": "none"}, {"name": "proxy", "sidecar": proxy}],
        }
        path = self.folder / "a.yaml"
        path.write_text(yaml.safe_dump(content | fields))
        return str(path)

    def play(self, does: str = "", **fields: Any) -> AcceptanceRecord:
        (self.folder / "does").write_text(does)
        file = self.file(**fields)
        session = open_acceptance(file, None, datetime(2026, 11, 30, tzinfo=UTC))
        return play_acceptance(session, self.hands(), lambda line: None)

    def hands(self) -> Hands:
        environ = {**os.environ, "PROGRAM_STUB": str(self.folder)}
        workload = [sys.executable, "-S", "-E", str(STUB)]
        return Hands([], lambda *_: None, lambda *_: False, workload=workload, environ=environ)

    @property
    def calls(self) -> list[str]:
        return [line.split()[0] for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def own(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def test_a_program_is_deleted_and_created_again_under_the_same_name(own: Programs) -> None:
    record = own.play()
    assert own.calls == ["create", "delete", "create", "delete"] * 2
    assert len({line for line in (own.folder / "calls").read_text().splitlines() if "create" in line}) == 2
    assert [(cell.title, cell.status) for cell in record.cells] == [
        ("none · 1", "passed"),
        ("proxy · 1", "passed"),
    ]
    assert record.found is not None
    for variant in record.found["variants"]:
        went_on, losses = variant["checks"]
        assert (went_on["passed"], went_on["told"][:9]) == (True, "from step")
        assert losses["passed"] is True, "what it said until it was gone is known"
        assert variant["objects"] == 2
        saves = next(one for one in variant["operations"] if one["operation"] == "save")
        assert len(saves["seconds"]) >= 4 and saves["median_s"] == 0.25


def test_its_image_command_and_environment_are_what_is_submitted(
    own: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder of this run, and what it has for itself, in the place of their names."""
    asked: list[list[str]] = []

    def hears(run: Play) -> bool:
        asked.append(run.create())
        return True

    monkeypatch.setattr(acceptance_program, "_both_starts", hears)
    program = {
        "image": "r.example/me/any:v1",
        "command": ["bash", "-c", "train {run}; ls $OUT"],
        "env": {"OUT": "{checkpoints}/x", "RUN": "{run}", "PLAIN": "a b=c"},
    }
    session = open_acceptance(own.file(training=program), "x")
    watch = Watch(9.0, 9.0, threading.Event(), own.folder)
    for turn in session.turns():
        play_program(session, turn, own.hands(), watch, lambda line: None)
    for words, run in zip(asked, ("own-x-none-1-1", "own-x-proxy-1-1"), strict=True):
        assert words[words.index("--image") + 1] == "r.example/me/any:v1"
        assert words[words.index("--grace") + 1] == "1s", "it is stopped without time to save"
        assert [word for word in words if word.startswith("--env=")] == [
            f"--env=OUT={own.folder}/saved/{run}/x",
            "--env=PLAIN=a b=c",
            f"--env=RUN={run}",
        ]
        assert words[words.index("--") + 1 :] == ["bash", "-c", f"train {run}; ls $OUT"]
    assert asked[0][asked[0].index("--target") + 1] != asked[1][asked[1].index("--target") + 1]


def test_axlearns_lines_are_heard_while_it_runs(tmp_path: Path) -> None:
    """Of its first pod, as they come: a line may be cut by the end of what is there so far."""
    at = "I0102 10:00:{:02}.000000 140123 checkpointer.py:321] "
    said = "".join(
        f"[pod-{pod}] {at.format(second)}{text}\n"
        for second, text in (
            (1, "Restoring checkpoint from directory gs://b/c/step_00000300"),
            (2, "Restored state from ckpt at step 300"),
            (3, "step 301 loss=2.5"),
            (4, "Serialization of gs://b/c/checkpoints/step_00000400 completed in 57.11 seconds."),
            (5, "Serialization of gs://b/c/checkpoints/step_00000500 completed in 5.869e1 seconds."),
        )
        for pod in (0, 1)
    ).encode()
    log = tmp_path / "log"
    heard = _Heard(log, re.compile(r"step (?P<step>\d+) loss=(?P<loss>[\d.]+)"))
    cut = said.index(b"completed in 57")
    log.write_bytes(said[:cut])
    heard.look(at_once=True)
    assert (heard.resumed, heard.saves) == (True, 0)
    log.write_bytes(said)
    heard.look(at_once=True)
    assert heard.saves == 2
    (start,) = read_log(heard.lines, heard.loss)
    assert (start.saves, start.restores, start.resumed) == ((57.11, 58.69), (1.0,), 300)
    assert start.losses == {301: 2.5}


def test_a_cluster_that_knows_no_sidecars_is_refused_before_the_first_run(
    own: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gke_access, "version_of", lambda config: ("context c", "v1.28.3"))
    with pytest.raises(BadInput) as refused:
        own.play()
    (problem,) = refused.value.problems
    assert problem.what.startswith(
        "variant proxy: context c is Kubernetes v1.28.3, which knows no sidecars, and p"
    )
    assert problem.place is not None and problem.place.file.endswith("a.yaml")
    assert not (own.folder / "calls").exists()


def test_losses_are_held_against_those_of_a_run_that_is_not_stopped(own: Programs) -> None:
    """It saves as often as both starts of the others together: what those did after the restart, it did, too."""
    record = own.play("drifts", reference=True)
    assert own.calls == ["create", "delete"] + ["create", "delete", "create", "delete"] * 2
    assert [cell.title for cell in record.cells] == ["reference", "none · 1", "proxy · 1"]
    assert {cell.status for cell in record.cells} == {"passed"}
    assert record.found is not None and record.exit_code == 1
    for variant in record.found["variants"]:
        went_on, losses = variant["checks"]
        assert went_on["passed"] is True
        assert (losses["passed"], "step 22: " in losses["told"]) == (False, True), losses


def test_a_workload_that_nobody_saw_go_is_named_with_what_ends_it(
    own: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ThirdCtrlC(BaseException):
        pass

    def cut(*_: object) -> str:
        raise ThirdCtrlC

    session = open_acceptance(own.file(), "x")
    turn, watch = session.turns()[0], Watch(9.0, 9.0, threading.Event(), own.folder)
    with monkeypatch.context() as patched, pytest.raises(ThirdCtrlC):
        patched.setattr(acceptance_program, "_both_starts", cut)
        patched.setattr(acceptance_program, "_deleted", cut)
        play_program(session, turn, own.hands(), watch, lambda line: None)
    name = json.loads((own.folder / "runs" / turn.run.run_id / "passes.json").read_text())["workload"]
    (told,) = standing(session)
    assert told == (
        f"workload {name} of own-x-none-1 may train on until its deadline: "
        f"slicebench workload delete {name} --target {turn.run.request.target} --missing-ok --force"
    )
    play_acceptance(session, own.hands(), lambda line: None)
    assert standing(session) == []


def test_runs_that_are_called_alike_have_workloads_of_other_names(tmp_path: Path) -> None:
    mine, others = (open_folder(f"{tmp_path}/{whose}/own-1-none-1") for whose in ("mine", "others"))
    (number, name), (_, other) = next_pass(mine), next_pass(others)
    assert number == 1 and len(name) == len(NAME)
    assert name != other, "what one deletes would be the other's"
    mine.write("passes.json", json.dumps({"passes": 1, "workload": name, "checkpoints": "x"}).encode())
    assert next_pass(mine) == (2, name), "what a killed one left has to be found"


@pytest.mark.parametrize(
    ("does", "code", "cause"),
    [
        ("anew", 1, ""),
        ("ends", 1, "it was over after 1 checkpoint"),
        ("broken", 3, "the cluster refuses it"),
        ("stays", 5, "may still be there: it cannot be deleted"),
    ],
)
def test_what_does_not_go_well_is_told(own: Programs, does: str, code: int, cause: str) -> None:
    record = own.play(does)
    assert record.exit_code == code, record
    assert cause in record.cells[0].cause
    if does == "anew":
        assert record.found is not None and "began anew" in record.found["variants"][0]["checks"][0]["told"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"target": "local"}, "a program runs in pods"),
        ({"training": {"checkpoints": "/there"}}, "it needs {run} in it"),
        ({"training": {"command": ["train"]}}, "nothing tells the program"),
        (
            {"training": {"command": ["train", "{checkpoint}"]}},
            "write {checkpoints}, or write {{checkpoint}}",
        ),
        ({"training": {"env": {"AT": "{run}/{step}"}}}, "the placeholders are {checkpoints}, {run}"),
        ({"training": {"loss": "loss (.*)"}}, "needs two groups"),
        ({"training": {"loss": "(("}}, "no regular expression"),
        ({"training": {"env": {"MY_TOKEN": "x"}}}, "sounds like a secret"),
        ({"training": {"command": []}}, "command"),
        ({"set": ["a=1"]}, "whose environment is its own"),
        (
            {"variants": [{"name": "none"}, {"name": "own", "encryption": {"keys": {"bkt": KEY}}}]},
            "proxies stand before Cloud Storage only",
        ),
        (
            {
                "training": {"checkpoints": "gs://other/{run}"},
                "variants": [{"name": "none"}, {"name": "own", "encryption": {"keys": {"bkt": KEY}}}],
            },
            "is in no place that encryption: has a key for",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    own: Programs, fields: dict[str, Any], told: str
) -> None:
    file = own.file(**fields)
    with pytest.raises(BadInput) as refused:
        plan_session(open_acceptance(file, "x"))
    problems = [one for one in refused.value.problems if told in str(one)]
    assert problems, [str(one) for one in refused.value.problems]
    assert not any("must be text" in str(one) for one in refused.value.problems), "of what else it could be"
    assert not (own.folder / "runs").exists() and not (own.folder / "calls").exists()
