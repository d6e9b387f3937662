"""One run of somebody's own training program in an acceptance: a workload that is created, deleted, and created again.

It leaves in its folder what a run of ours leaves: attempts, logs, what lay in the store when it was stopped, and how it
ended. A run that was begun and did not come to its end begins anew, with a place of its own for its checkpoints.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runtime.contract.braces import filled
from runtime.contract.counting import counted
from runtime.contract.disruption import Restart
from runtime.contract.errors import ExitCode, InfrastructureError, Interrupted
from tasks.cloud.storage import Folder, open_folder, read_json
from tasks.config.acceptance import Program
from tasks.config.acceptance_turns import Session, Turn
from tasks.history.acceptance_log import read_log
from tasks.stages.context import Say
from tasks.stages.files import ATTEMPTS_FILE, OUTCOME_FILE, log_file
from tasks.stages.nightly_child import ChildEnd, Given, deadline, play
from tasks.stages.nightly_run import Hands, RunEnd, Watch, settled
from tasks.stages.stopping import Stopped, stopped_file
from tasks.stages.stored import stored_in

_PASSES = "passes.json"
_LOOK_EVERY_S = 1.0
_AGAIN_AFTER_S = 10.0
_PREFIX = re.compile(r"^\[(?P<pod>[^\]]+)\] (?P<text>.*)$")


class _Over(Exception):
    """The run came to an end that proves nothing."""


@dataclass
class _Heard:
    """What the first pod of a workload says, read from the log of the command that follows it.

    `left`: it said all that was waited for, and its workload was deleted: what is wrong with that; empty: nothing.
    """

    log: Path
    loss: re.Pattern[str] | None
    lines: list[str] = field(default_factory=list)
    saves: int = 0
    resumed: bool = False
    left: str | None = None
    _pod: str = ""
    _read: int = 0
    _looked: float = 0.0

    def look(self, *, at_once: bool = False) -> None:
        """Takes in what is new."""
        if not self.log.exists() or (not at_once and time.monotonic() - self._looked < _LOOK_EVERY_S):
            return
        self._looked = time.monotonic()
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        found = [
            said for line in whole.decode(errors="replace").splitlines() if (said := _PREFIX.match(line))
        ]
        if found and not self._pod:
            self._pod = found[0]["pod"]
        mine = [said["text"] for said in found if said["pod"] == self._pod]
        self.lines += mine
        starts = read_log(mine, self.loss)
        self.saves += sum(len(start.saves) for start in starts)
        self.resumed = self.resumed or any(start.resumed is not None for start in starts)


@dataclass(frozen=True)
class Play:
    """A run that is played. `place`: where its checkpoints lie, `id`: what stands for {run}, `name`: its workload's.

    `number`: how often it was begun, this time too; `checkpoints`: after so many saves it is stopped.
    """

    turn: Turn
    program: Program
    hands: Hands
    watch: Watch
    say: Say
    folder: Folder
    number: int
    place: str
    id: str
    name: str
    checkpoints: int

    @property
    def target(self) -> str:
        """Returns the target file of its variant."""
        return self.turn.run.request.target

    def create(self) -> list[str]:
        """Returns the command that submits the workload and follows it."""
        program, known = self.program, {"checkpoints": self.place, "run": self.id}
        env = [f"--env={name}={filled(value, known)}" for name, value in program.env.items()]
        words = [*self.hands.workload, "create", self.name, "--target", self.target, "--image", program.image]
        # It is to be stopped the hard way: no time to save anything before.
        words += [
            "--grace",
            "1s",
            "--deadline",
            f"{int(self.watch.limit_s)}s",
            *env,
            "--wait",
            "--json",
            "--",
        ]
        return [*words, *(filled(word, known) for word in program.command)]

    def delete(self) -> list[str]:
        """Returns the command that deletes it if it is there, and waits until its pods are gone."""
        words = ["delete", self.name, "--target", self.target, "--missing-ok", "--force", "--json"]
        return [*self.hands.workload, *words]


def play_program(session: Session, turn: Turn, hands: Hands, watch: Watch, say: Say) -> RunEnd:
    """Makes a run, or says how it ended. Whatever happens there, it is told by what is returned."""
    if (ended := settled(turn.run)) is not None:
        say(f"{turn.run.run_id}: ended already, nothing was done")
        return ended
    run = _play(session, turn, hands, watch, say)
    folder, began = run.folder, time.time()
    begun = {"passes": run.number, "workload": run.name, "checkpoints": run.place, "over": False}
    folder.write(_PASSES, json.dumps(begun).encode())
    if run.number > 1:
        _deleted(run)
    code, cause, gone = ExitCode.DONE, "", False
    try:
        gone = _unstopped(run) if turn.repeat is None else _both_starts(run)
    except _Over as over:
        code, cause = ExitCode.WORKLOAD_FAILED, str(over)
    except (InfrastructureError, Interrupted) as error:
        code, cause = error.exit_code, str(error)
    finally:
        left = "" if gone else _deleted(run)
    if left:
        code = ExitCode.LEAKED
    causes = list(dict.fromkeys(one for one in (cause, left) if one))
    told = {"run_id": turn.run.run_id, "exit_code": int(code), "causes": causes, "verdict": None}
    took = {"finished_at": time.time(), "took_s": time.time() - began}
    folder.write(OUTCOME_FILE, json.dumps(told | took, indent=1).encode())
    folder.write(_PASSES, json.dumps(begun | {"over": not left}).encode())
    ended = settled(turn.run)
    return ended or RunEnd(turn.run.run_id, folder.uri, turn.run.cell.target, "not_run", int(code), causes)


def standing(session: Session) -> list[str]:
    """Returns what to say of workloads that were begun and not seen to go, each with the command that ends it."""
    if not isinstance(session.config.training, Program):
        return []
    said = []
    for turn in session.turns():
        known = read_json(open_folder(f"{session.output}/{turn.run.run_id}"), _PASSES)
        if isinstance(known, Mapping) and not known.get("over"):
            ends = f"slicebench workload delete {known['workload']} --target {turn.run.request.target}"
            said.append(
                f"workload {known['workload']} of {turn.run.run_id} may train on until its deadline: "
                f"{ends} --missing-ok --force"
            )
    return said


class Earlier:
    """A pass of a run whose acceptance was killed. The command that it began follows its workload yet, and holds the
    run's places until that is gone.
    """

    def __init__(self, session: Session, turn: Turn, hands: Hands, watch: Watch, say: Say) -> None:
        run = _play(session, turn, hands, watch, say)
        self._run = None if run.number == 1 or settled(turn.run) is not None else run
        self._asked_at = -math.inf

    def ends(self) -> None:
        """Deletes its workload, which may come yet: a command that had just begun makes one. Not at each call."""
        if self._run is not None and time.monotonic() - self._asked_at > _AGAIN_AFTER_S:
            _deleted(self._run)
            self._asked_at = time.monotonic()


def next_pass(folder: Folder) -> tuple[int, str]:
    """Returns the number of the pass that begins in a run's folder, from 1, and the name of the run's workload.

    Nobody else's has that name, even if sessions are called alike: it is deleted whatever becomes of creating it.
    """
    before = read_json(folder, _PASSES)
    if isinstance(before, Mapping):
        return int(before["passes"]) + 1, str(before["workload"])
    return 1, f"accept-{secrets.token_hex(5)}"


def _play(session: Session, turn: Turn, hands: Hands, watch: Watch, say: Say) -> Play:
    """Returns the pass of a run that would begin now."""
    program, checkpoints = session.config.training, session.config.checkpoints
    assert isinstance(program, Program)
    folder = open_folder(f"{session.output}/{turn.run.run_id}")
    number, name = next_pass(folder)
    own = f"{turn.run.run_id}-{number}"
    place = filled(program.checkpoints, {"run": own})
    return Play(turn, program, hands, watch, say, folder, number, place, own, name, checkpoints)


def _unstopped(run: Play) -> bool:
    """Trains as far as those that are stopped get, without a stop: what their losses are held against.

    Returns whether its workload is gone by then. Raises what ends all, and _Over where it fails.
    """
    saves = run.checkpoints + run.program.after
    run.say(
        f"{run.turn.run.run_id}: workload {run.name} begins, with checkpoints in {run.place}, and is not stopped"
    )
    attempt = {"n": 1, "counts": True, "restart": None, "stopped": False, "end": ""}
    run.folder.write(ATTEMPTS_FILE, json.dumps([attempt], indent=1).encode())
    return _started(run, 1, saves).left == ""


def _both_starts(run: Play) -> bool:
    """Trains until the checkpoints are complete, stops, and trains on; returns whether its workload is gone by then.

    Raises _Over, or what ends all.
    """
    asked = run.checkpoints
    run.say(f"{run.turn.run.run_id}: workload {run.name} begins, with checkpoints in {run.place}")
    first = _started(run, 1, asked)
    if first.saves < asked:
        raise _Over(f"it was over after {counted(first.saves, 'checkpoint')}, before it could be stopped")
    if first.left is None and (left := _deleted(run)):  # it came to its end just then
        raise InfrastructureError(left)
    stored = stored_in(open_folder(run.place), "")
    complete = list(stored.committed) or [one.step for one in stored.checkpoints]
    if not complete:
        raise _Over(f"it told of {counted(first.saves, 'save')}, and no checkpoint lies in {run.place}")
    reached = Restart(0, complete[-1], complete[-1], point=0)
    stopped = Stopped(1, asked, time.time(), complete, reached)
    run.folder.write(stopped_file(1), json.dumps({**asdict(stopped), **asdict(stored)}, indent=1).encode())
    attempts: list[dict[str, Any]] = [
        {"n": 1, "counts": True, "restart": None, "stopped": True, "end": "preempted", "reached": asdict(reached)},
        {"n": 2, "counts": True, "restart": asdict(reached), "stopped": False, "end": ""},
    ]  # fmt: skip
    run.folder.write(ATTEMPTS_FILE, json.dumps(attempts, indent=1).encode())
    run.say(
        f"{run.turn.run.run_id}: deleted with steps {', '.join(map(str, complete))} complete; started again"
    )
    second = _started(run, 2, run.program.after)
    if second.saves < run.program.after and not second.resumed:
        raise _Over("started again, it was over before it restored or saved anything")
    return second.left == ""


def _started(run: Play, number: int, saves: int) -> _Heard:
    """Starts the workload and listens until it has saved so often. Raises what ends all, and keeps what it said."""
    log = run.watch.logs / f"{run.turn.run.run_id}-{number}.log"
    log.unlink(missing_ok=True)
    heard = _Heard(log, re.compile(run.program.loss) if run.program.loss else None)
    over = deadline(run.watch.limit_s, run.watch.stop)

    def until() -> bool:
        heard.look()
        if heard.saves >= saves and (saves > 0 or heard.resumed):
            # While it is followed: what it says until it is gone is what losses after the restart are held against.
            heard.left = _deleted(run)
        return heard.left is not None or over()

    given = Given(log, run.hands.environ, run.watch.holds)
    child = play(run.create(), given, until=until, stop_s=run.watch.stop_s)
    heard.look(at_once=True)
    run.folder.write(log_file(number, 0), "\n".join([*heard.lines, ""]).encode())
    if heard.left:
        raise InfrastructureError(heard.left)
    if heard.left is not None:
        return heard
    if run.watch.stop.is_set():
        raise Interrupted(f"the {run.watch.what} was interrupted")
    if not child.cut and child.code in (ExitCode.BAD_INPUT, ExitCode.INFRASTRUCTURE):
        raise InfrastructureError(_said(child))
    if not child.cut and child.code and heard.saves < saves:
        raise _Over(f"start {number} ended with exit code {child.code}: {_said(child)}")
    if child.cut and over():
        raise InfrastructureError(
            f"start {number} was cut at its deadline: {counted(heard.saves, 'save')} by then"
        )
    return heard


def _deleted(run: Play) -> str:
    """Deletes the workload if it is there; returns what is wrong where that is not proven."""
    log = run.watch.logs / f"{run.turn.run.run_id}-delete.log"
    over = deadline(run.watch.stop_s, threading.Event())
    child = play(run.delete(), Given(log, run.hands.environ), until=over, stop_s=run.watch.stop_s)
    return f"workload {run.name} may still be there: {_said(child)}" if child.code else ""


def _said(child: ChildEnd) -> str:
    lines = [line for line in child.said.splitlines() if line.strip()]
    return str(
        child.told.get("error") or (lines[-1].removeprefix("slicebench: ") if lines else "without a word")
    )
