"""Acceptances: runs in turns by the stand-in of `slicebench run`, going on after whatever, and what they come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.contract.errors import BadInput, ExitCode
from tasks.cloud.storage import Folder, open_folder
from tasks.config.acceptance_turns import Session
from tasks.history.acceptance import Check, Trial, accept
from tasks.history.acceptance_checks import RESUMED, losses_go_on, went_on
from tasks.stages import acceptance_judge
from tasks.stages.acceptance import open_acceptance, play_acceptance
from tasks.stages.acceptance_judge import judge, read_past, sealed, starts_of
from tasks.stages.acceptance_plan import plan_session
from tasks.stages.acceptance_record import AcceptanceRecord, read_record
from tasks.stages.files import log_file
from tasks.stages.nightly_record import CellEnd
from tests.tasks.stages.nights import Nights

NOW = datetime(2026, 11, 29, 23, 55, 33, tzinfo=UTC)
SUITE = """\
suite_name: T
mesh_config: {mesh_axes: [data], ici_parallelism: {data: 1}}
benchmarks:
  - generator: runtime.benchmarks.training.Training
    options: {train_steps: 40, save_interval_steps: 10}
"""


class Acceptances(Nights):
    """A folder with an acceptance of two variants."""

    def file(self, **fields: Any) -> str:
        (self.folder / "train.yaml").write_text(SUITE)
        (self.folder / "here.yaml").write_text("kind: local\nworkers: 1\n")
        path = self.folder / "acceptance.yaml"
        off = {"name": "off", "encryption": {"enabled": False}}
        content = {
            "name": "a",
            "target": "./here.yaml",
            "training": "./train.yaml",
            "output": str(self.folder / "runs"),
            "checkpoints": 2,
            "variants": [{"name": "none"}, off],
        }
        path.write_text(yaml.safe_dump(content | fields))
        return str(path)

    def play(self, **fields: Any) -> AcceptanceRecord:
        file = self.file(**fields)
        session = open_acceptance(file, None, NOW)
        return play_acceptance(session, self.hands(), lambda line: None)


@pytest.fixture
def here(tmp_path: Path) -> Acceptances:
    return Acceptances(tmp_path)


Found = Mapping[str, Any]


def found(verdict: str = "accepted", passed: bool | None = True) -> Found:
    check = vars(Check("c", passed, "t"))
    return {"verdict": verdict, "variants": [{"verdict": verdict, "checks": [check]}]}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Found], None]:
    def set_to(what: Found) -> None:
        def stand_in(session: Session, ends: Sequence[CellEnd], folder: Folder) -> tuple[Found, list[str]]:
            return what, ["verdict: " + str(what["verdict"])]

        monkeypatch.setattr(acceptance_judge, "judge", stand_in)

    set_to(found())
    return set_to


def test_every_variant_is_run_and_it_is_over_when_all_passed(here: Acceptances, judged: object) -> None:
    record = here.play()
    assert here.calls == [f"run a-1129-235533-{name}" for name in ("reference", "none-1", "off-1")]
    assert (record.code, record.exit_code, record.missing) == (ExitCode.DONE, 0, [])
    written = read_record(open_folder(str(here.folder / "runs" / "a-1129-235533")))
    assert written["exit_code"] == 0 and [one["title"] for one in written["cells"]] == [
        "reference",
        "none · 1",
        "off · 1",
    ]
    folder = Path(open_acceptance(here.file(), "1129-235533").targets)
    targets = [json.loads(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
    assert targets == [
        {"kind": "local", "workers": 1},
        {"kind": "local", "workers": 1, "encryption": {"enabled": False}},
    ]
    words = json.loads((here.folder / "runs" / "a-1129-235533-off-1" / "request.json").read_text())["words"]
    assert words[words.index("--stop-after-checkpoints") + 1] == "2"
    reference = here.folder / "runs" / "a-1129-235533-reference" / "request.json"
    assert "--stop-after-checkpoints" not in json.loads(reference.read_text())["words"]


@pytest.mark.parametrize(
    ("what", "code"),
    [
        (found(), 0),
        (found("cannot tell", None), 0),
        (found("refused"), 4),
        (found("refused", False), 1),
    ],
)
def test_what_it_comes_to_is_the_exit_code(
    here: Acceptances, judged: Callable[[Found], None], what: Found, code: int
) -> None:
    judged(what)
    assert here.play().exit_code == code


def test_the_same_command_goes_on_with_what_did_not_run(here: Acceptances, judged: object) -> None:
    here.plan(none_1={"code": 3}, off_1={"code": 1})
    assert here.play().exit_code == 3
    here.plan()
    record = here.play()
    assert record.id == "1129-235533" and record.exit_code == 1, "what failed is not made again"
    again = here.calls[3:]
    assert again == ["resume a-1129-235533-none-1"]
    other = open_acceptance(here.file(), None, NOW.replace(hour=1))
    assert other.id == "1129-015533", "what is over is not gone on with"
    assert open_acceptance(here.file(checkpoints=1), None, NOW.replace(hour=2)).id == "1129-025533"


def test_an_interrupt_is_written_down_and_gone_on_from(here: Acceptances, judged: object) -> None:
    file = here.file()
    session = open_acceptance(file, None, NOW)

    def struck(title: str, play: Callable[[], CellEnd]) -> CellEnd:
        if title == "none · 1":
            raise KeyboardInterrupt
        return play()

    with pytest.raises(KeyboardInterrupt):
        play_acceptance(session, here.hands(), lambda line: None, struck)
    written = read_record(open_folder(session.uri))
    assert (written["exit_code"], written["missing"]) == (130, ["none · 1", "off · 1"])
    assert here.play().exit_code == 0
    assert here.calls == [f"run a-1129-235533-{name}" for name in ("reference", "none-1", "off-1")]


BKT = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
ENCRYPTING = [{"name": "none"}, {"name": "own", "encryption": {"keys": {"bkt": BKT}}}]
OFF = {"GCS_PROXY_DISABLE_ENCRYPTION": "true"}
STEPS = "benchmarks.0.options.train_steps"


def mapped(text: str, **more: str) -> list[dict[str, Any]]:
    """Returns variants of which one is told of its keys as go-gcsproxy is."""
    env = {"GCP_KMS_BUCKET_KEY_MAPPING": text, **more}
    beside = {"name": "p", "command": ["p", "{port}"], "env": env}
    return [{"name": "none"}, {"name": "own", "encrypts": True, "sidecar": beside}]


@pytest.mark.parametrize(
    ("fields", "key", "told"),
    [
        ({"checkpoints": 4}, "checkpoints: 4", "checkpoints: 4: it saves 4 checkpoints in all"),
        ({"set": [f"{STEPS}=11"]}, "checkpoints: 2", f'after the stop, set: ["{STEPS}=40"], or stop it'),
        ({"target": "./nowhere.yaml"}, "target:", "nowhere"),
        ({"target": "locl"}, "target:", "did you mean local"),
        ({"output": "s3://b/x"}, "output:", "s3:// is not a storage"),
        ({"training": "./nowhere.yaml"}, "training:", "nowhere"),
        ({"training": "trainin"}, "training:", "did you mean training"),
        ({"set": ["num_repeats=2"]}, "checkpoints: 2", "2 repeats each"),
        ({"set": ["warmup=0", f"{STEPS}s=4"]}, f"- {STEPS}s=4", "did you mean 'train_steps'?"),
        ({"set": ["warmup=0", f"{STEPS}=0"]}, f"- {STEPS}=0", "train_steps must be positive"),
        ({"set": [STEPS]}, f"- {STEPS}", "is not KEY=VALUE"),
        ({"set": ["benchmarks.3.options=1"]}, "- benchmarks.3", "there is no benchmarks.3"),
        ({"env": ["A=1", "B C=2"]}, "- B C=2", "'B C' is not the name of a variable"),
        ({"env": ["MY_TOKEN=2"]}, "- MY_TOKEN=2", "write MY_TOKEN alone"),
        ({"env_file": ["./nothing"]}, "- ./nothing", "nothing: env file cannot be read"),
        ({"variants": ENCRYPTING}, "- encryption", "proxies stand before Cloud Storage only"),
        ({"output": "gs://other/runs", "variants": ENCRYPTING}, "- encryption", "gs://other/runs is in no"),
        ({"output": "gs://other/runs", "variants": mapped(f"bkt:{BKT}")}, "- encrypts", "MAPPING of sidecar p has a"),
        ({"output": "gs://bkt/x", "variants": mapped(f"bkt:{BKT}", **OFF)}, "- encrypts", "told to encrypt nothing"),
        ({"output": "gs://bkt/runs", "variants": mapped("bkt")}, "- encrypts", "sidecar p: 'bkt' is no entry of a"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_at_its_place_before_anything_is_made(
    here: Acceptances, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], key: str, told: str
) -> None:
    monkeypatch.setattr("tasks.stages.acceptance._unfinished", lambda session: None)
    file = here.file(**fields)
    with pytest.raises(BadInput) as refused:
        plan_session(open_acceptance(file, None, NOW))
    [problem] = refused.value.problems
    assert told in str(problem) and problem.fix, str(problem)
    place = problem.place
    assert place is not None and place.file == file and place.line is not None
    assert Path(file).read_text().splitlines()[place.line - 1].lstrip().startswith(key), str(problem)
    assert ("variant own" in problem.what) == ("variants" in fields)
    assert not (here.folder / "runs").exists() and here.calls == []


@pytest.mark.parametrize("text", [f"bkt:{BKT}", f"b2t:{BKT},bkt:gcp-kms://{BKT}", f"*:{BKT}", "{store}"])
def test_a_key_map_that_has_the_output_or_may_have_it_is_none_of_our_business(
    here: Acceptances, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("tasks.stages.acceptance._unfinished", lambda session: None)
    plan_session(open_acceptance(here.file(output="gs://bkt/runs", variants=mapped(text)), None, NOW))


def test_what_is_wrong_in_a_file_that_it_names_is_told_there(here: Acceptances) -> None:
    file = here.file()
    (here.folder / "here.yaml").write_text("kind: local\nworkrs: 1\n")
    (here.folder / "train.yaml").write_text(SUITE.replace("train_steps", "trainsteps"))
    (here.folder / "env").write_text("A=1\nB C\n")
    Path(file).write_text(f"{Path(file).read_text()}env_file: [./env]\n")
    with pytest.raises(BadInput) as refused:
        plan_session(open_acceptance(file, "x", NOW))
    places = [f"{one.place.file}:{one.place.line}" for one in refused.value.problems if one.place]
    assert places == [f"{here.folder}/{name}" for name in ("here.yaml:2", "train.yaml:5", "env:2")]


def test_an_acceptance_is_known_by_its_name(here: Acceptances, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here.folder / "configs" / "acceptance"
    folder.mkdir(parents=True)
    Path(here.file(training=str(here.folder / "train.yaml"), target=str(here.folder / "here.yaml"))).rename(
        folder / "mine.yaml"
    )
    monkeypatch.chdir(here.folder)
    assert plan_session(open_acceptance("mine", "x", NOW)).places == {"this machine"}


def test_key_files_are_looked_at_before_anything_is_made(
    here: Acceptances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.stages.acceptance._unfinished", lambda session: None)
    own = {"name": "own", "encryption": {"keys": {"bkt": f"file:{here.folder}/none.json"}}}
    with pytest.raises(BadInput, match=r"variant own: .*none\.json") as refused:
        here.play(output="gs://bkt/runs", variants=[{"name": "none"}, own])
    (problem,) = refused.value.problems
    assert problem.place is not None and problem.fix
    assert here.calls == []


def test_what_ran_is_judged_by_what_it_wrote(here: Acceptances, tmp_path: Path) -> None:
    file = here.file()
    session = open_acceptance(file, "x", NOW)
    ends = []
    for turn in session.turns():
        run = open_folder(f"{session.output}/{turn.run.run_id}")
        attempts = [
            {"n": 1, "counts": True, "restart": None, "stopped": True, "reached": {"saved": 10}},
            {"n": 2, "counts": True, "restart": {"saved": 10}},
        ]
        run.write("attempts.json", json.dumps(attempts).encode())
        run.write("logs/worker-0000.log", b"step 10: loss 2.5\nstep 11: loss 2.25\n")
        stop = {"complete": [0, 10], "checkpoints": [{"step": 0, "objects": 2, "bytes": 10}], "looked": 4}
        run.write("stopped-a1.json", json.dumps(stop).encode())
        end = CellEnd(turn.title, "s", "t", "v", "t", "passed", runs=[_ended(run.uri)])
        ends.append(end)
    first, second = starts_of(open_folder(ends[1].runs[0].folder))
    assert first.losses == {10: 2.5, 11: 2.25} and (first.newest, second.newest) == (None, 10)
    figures, summary = judge(session, ends, open_folder(session.uri))
    none, off = figures["variants"]
    assert (none["objects"], none["stored_bytes"]) == (2, 10)
    assert next(check["passed"] for check in off["checks"]) is False, "it began anew"
    assert summary[-1].startswith("verdict: refused")


def test_what_was_cut_by_accident_is_held_against_what_was_complete_then_and_not_timed(
    tmp_path: Path,
) -> None:
    at: dict[str, Any] = {"counts": True, "restart": {"saved": 0}}
    attempts = [
        {
            "n": 1,
            "counts": True,
            "restart": None,
            "stopped": True,
            "end": "preempted",
            "reached": {"saved": 0},
        },
        {"n": 2, **at, "end": "interrupted", "reached": {"saved": 0}},
        {"n": 3, **at, "end": "lost"},  # killed, and so was who listened
        {"n": 4, **at, "end": "interrupted", "reached": {"saved": 0}},
        {"n": 5, **at, "end": "succeeded"},
    ]
    run = open_folder(str(tmp_path / "run"))
    run.write("attempts.json", json.dumps(attempts).encode())
    run.write("stopped-a1.json", json.dumps({"complete": [0], "committed": [0]}).encode())
    logs = [
        # The last was not complete on all workers when it was stopped: the store has the first alone.
        "step 0: loss 3.0\nsaved step 0 in 1.0 s\nstep 1: loss 2.5\nsaved step 1 in 1.0 s\n",
        "restored step 0 in 9.0 s\nstep 1: loss 2.5\n",
        "restored step 0 in 9.0 s\nstep 1: loss 2.5\nsaved step 1 in 9.0 s\n",
        "",
        "restored step 1 in 1.0 s\nstep 2: loss 2.25\nsaved step 2 in 1.0 s\n",
    ]
    for number, log in enumerate(logs, start=1):
        run.write(log_file(number, 0), log.encode())
    starts = starts_of(run)
    assert [(one.newest, one.resumed) for one in starts] == [(None, None), (0, 0), (0, 0), (1, None), (1, 1)]
    assert went_on([starts]) == Check(RESUMED, True, "from step 0, 0, 1")
    assert losses_go_on([starts]).passed
    [judged] = accept([Trial("v", [starts])]).variants
    assert {name: times.values for name, times in judged.times.items()} == {
        "save": [1.0, 1.0, 1.0],
        "restore": [1.0],
    }


def test_a_start_that_came_to_its_end_counts_though_who_listened_was_interrupted(tmp_path: Path) -> None:
    """Whoever goes on then finds nothing left, and notes an attempt of no points."""
    attempts: list[dict[str, Any]] = [
        {"n": 1, "restart": None, "points": None, "stopped": True, "end": "preempted"},
        {"n": 2, "restart": {"saved": 0}, "points": None, "end": "interrupted"},
        {"n": 3, "restart": None, "points": [], "end": "succeeded"},
    ]
    run = open_folder(str(tmp_path / "run"))
    run.write("attempts.json", json.dumps(attempts).encode())
    run.write("stopped-a1.json", json.dumps({"complete": [0], "committed": [0]}).encode())
    run.write(log_file(1, 0), b"step 0: loss 3.0\nsaved step 0 in 1.0 s\n")
    run.write(log_file(2, 0), b"restored step 0 in 1.0 s\nstep 1: loss 2.5\nsaved step 1 in 1.0 s\n")
    starts = starts_of(run)
    assert [(one.resumed, one.cut) for one in starts] == [(None, False), (0, False)]
    assert went_on([starts]) == Check(RESUMED, True, "from step 0")


def _ended(folder: str) -> Any:
    from tasks.stages.nightly_run import RunEnd

    return RunEnd("r", folder, "t", "passed", 0)


@pytest.mark.parametrize(
    ("stops", "shown", "passed"),
    [
        ([{"looked": 3, "readable": []}], True, True),
        ([{"looked": 3, "readable": []}], False, None),
        ([{"looked": 0}], True, None),
        ([{"looked": 3, "readable": []}, {"looked": 3, "readable": ["0/x", "0/y"]}], True, False),
    ],
)
def test_what_is_in_the_store_must_say_nothing(
    stops: list[dict[str, Any]], shown: bool, passed: bool | None
) -> None:
    assert sealed(stops, shown).passed is passed


@pytest.mark.parametrize(
    ("stop", "led", "passed"),
    [
        ({"tried": ["0/_METADATA", "0/manifest.ocdbt"], "opened": []}, True, True),
        ({"tried": ["0/_METADATA", "0/manifest.ocdbt"], "opened": []}, False, None),
        ({"tried": ["0/_METADATA"], "opened": ["0/_METADATA"]}, False, False),
        ({"tried": []}, True, None),
    ],
)
def test_who_reads_past_the_proxy_finds_no_checkpoint(
    stop: dict[str, Any], led: bool, passed: bool | None
) -> None:
    assert read_past([stop], led).passed is passed


def test_what_is_held_to_be_encrypted_is_held_against_what_lies_there_without_a_proxy(
    here: Acceptances,
) -> None:
    """Of two looks at a store of plaintext that find nothing, neither proves anything of another store."""
    beside = {"name": "own", "encrypts": True, "sidecar": {"name": "p", "command": ["p", "{port}"]}}
    session = open_acceptance(here.file(variants=[{"name": "none"}, beside], reference=False), "x", NOW)
    attempts = [{"n": 1, "counts": True, "restart": None, "stopped": True, "reached": {"saved": 10}}]
    nothing: dict[str, Any] = {"complete": [10], "looked": 2, "readable": [], "tried": ["10/a"], "opened": []}
    both = {**nothing, "readable": ["10/a"], "opened": ["10/a"]}
    told = []
    for plain in (both, {**both, "opened": []}, {**both, "readable": []}):
        ends = []
        for turn, stop in zip(session.turns(), (plain, nothing), strict=True):
            run = open_folder(f"{session.output}/{turn.run.run_id}")
            run.write("attempts.json", json.dumps(attempts).encode())
            run.write("stopped-a1.json", json.dumps(stop).encode())
            ends.append(CellEnd(turn.title, "s", "t", "v", "t", "passed", runs=[_ended(run.uri)]))
        figures, _ = judge(session, ends, open_folder(session.uri))
        told.append([check["passed"] for check in figures["variants"][1]["checks"][2:]])
    assert told == [[True, True], [True, None], [None, True]]
