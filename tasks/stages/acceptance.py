"""An acceptance: training under each variant, stopped and started again, run after run; what that proves and costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode, InfrastructureError, worst
from runtime.contract.yamlfile import place_of
from tasks.cloud.storage import Folder, open_folder, probe_writable
from tasks.config import duration
from tasks.config.acceptance_turns import Session, Turn, checked_id, digest, new_id
from tasks.config.home import home, runs_folder
from tasks.config.load import load_acceptance, root_of
from tasks.config.locate import locate
from tasks.config.nightly_cells import folder_at
from tasks.stages.acceptance_plan import (
    Planned,
    plan_session,
    refuse_bad_keys,
    refuse_old_cluster,
    write_targets,
)
from tasks.stages.acceptance_record import AcceptanceRecord, read_record, write_record
from tasks.stages.context import Say
from tasks.stages.nightly_locks import Locks, Wanted, playing_alone
from tasks.stages.nightly_record import CellEnd
from tasks.stages.nightly_run import Hands, RunEnd, Watch, goes_on, measure, settled

PlayTurn = Callable[[str, Callable[[], CellEnd]], CellEnd]
"""Makes one run, by its title: as it is, or as a task."""

_OVER = frozenset({ExitCode.DONE, ExitCode.WORKLOAD_FAILED, ExitCode.REGRESSION})
"""Ends after which a session is not gone on with unless somebody names it."""


def open_acceptance(file: str, asked: str | None = None, now: datetime | None = None) -> Session:
    """Returns the session that a file means: the one that is named; else the newest of the same content that has not
    come to its end; else a new one. Raises BadInput, with all problems; makes nothing.
    """
    path = locate(file, "acceptance")
    config = load_acceptance(path)
    try:
        output = open_folder(folder_at(config.output, str(path.parent), str(runs_folder()))).uri
    except BadInput as refusal:
        place = place_of(root_of(path), ("output",))
        raise BadInput([replace(one, place=place) for one in refusal.problems]) from None
    if asked is not None:
        checked_id(asked)
    session = Session(config, asked or "", str(path), output, "")
    known = asked or _unfinished(session) or new_id(now or datetime.now(UTC))
    session = replace(session, id=known)
    return replace(session, targets=str(home() / "acceptance" / session.name))


def _unfinished(session: Session) -> str | None:
    folder, prefix = open_folder(session.output), f"{session.config.name}-"
    for name in sorted(folder.folders(), reverse=True):
        if not name.startswith(prefix):
            continue
        record = read_record(folder.child(name))
        if record.get("asks") == digest(session.config) and record.get("acceptance") == session.config.name:
            return None if record.get("exit_code") in _OVER else str(record.get("id"))
    return None


@dataclass(frozen=True)
class Doing:
    """What every run of a session is given. `until`: seconds since the epoch, after which nothing begins."""

    session: Session
    planned: Planned
    hands: Hands
    watch: Watch
    until: float
    say: Say
    locks: Locks


def play_acceptance(
    session: Session,
    hands: Hands,
    say: Say,
    play: PlayTurn = lambda title, play: play(),
) -> AcceptanceRecord:
    """Plays a session to its report; called again for the same one it goes on with what is missing.

    Raises BadInput, having made nothing; KeyboardInterrupt once all that was begun has given everything back and the
    report says so.
    """
    planned = plan_session(session)
    refuse_bad_keys(session)
    refuse_old_cluster(session)
    _refuse_unwritable(session)
    wait_s = duration.seconds(session.config.wait_for_lock)
    with playing_alone(session.name, session.uri, wait_s, say, what="acceptance"):
        write_targets(session)
        return _played(_doing(session, planned, hands, say), play)


def _doing(session: Session, planned: Planned, hands: Hands, say: Say) -> Doing:
    limits = session.config.limits
    watch = Watch(
        duration.seconds(limits.run),
        duration.seconds(limits.stop),
        threading.Event(),
        home() / "acceptance" / session.name / "logs",
        what="acceptance",
    )
    return Doing(session, planned, hands, watch, time.time() + duration.seconds(limits.all), say, Locks())


def _played(doing: Doing, play: PlayTurn) -> AcceptanceRecord:
    session, folder = doing.session, open_folder(doing.session.uri)
    turns = session.turns()
    began = read_record(folder).get("began_at")
    record = AcceptanceRecord(
        session.config.name,
        session.id,
        digest(session.config),
        float(began) if isinstance(began, int | float) else time.time(),
    )
    doing.say(f"acceptance {session.name}: {counted(len(turns), 'run')}, in {session.uri}")
    ends: list[CellEnd] = []

    def write(*codes: ExitCode, over: bool = False) -> None:
        nonlocal record
        missing = [turn.title for turn in turns[len(ends) :]]
        record = replace(record, cells=list(ends), missing=missing)
        if over:
            record = replace(record, ended_at=time.time(), exit_code=int(worst([*codes, record.code])))
        write_record(folder, record)

    try:
        write()
        for turn in turns:
            ends.append(_play_one(doing, turn, play))
            write()
        record = _judged(doing, folder, record, ends)
    except BaseException:
        write(ExitCode.INTERRUPTED, over=True)
        raise
    write(over=True)
    return record


def _play_one(doing: Doing, turn: Turn, play: PlayTurn) -> CellEnd:
    """Makes a run in a thread, so that a signal that ends this one is heard; what goes on is told to stop then."""

    def waited() -> CellEnd:
        with ThreadPoolExecutor(1, thread_name_prefix="turn") as pool:
            begun = pool.submit(copy_context().run, lambda: _end_of(turn, _measured(doing, turn)))
            try:
                while not wait([begun], timeout=1.0).done:  # a signal is heard between two looks
                    pass
                return begun.result()
            finally:
                if not begun.done():
                    doing.watch.stop.set()

    end = play(turn.title, waited)
    doing.say(f"{end.title}: {end.status.replace('_', ' ')}" + (f": {end.cause}" if end.cause else ""))
    return end


def _measured(doing: Doing, turn: Turn) -> RunEnd:
    one = turn.run
    if (ended := settled(one)) is not None:
        doing.say(f"{one.run_id}: ended already, nothing was done")
        return ended
    places = frozenset[str]() if goes_on(one, doing.hands) else doing.planned.places
    wait_s = duration.seconds(doing.session.config.wait_for_lock)
    earlier = _earlier(doing, turn)

    def over() -> str | None:
        earlier()  # which may be why the places are not free
        return _refusal(doing)

    wanted = Wanted(places, f"measuring {one.run_id}", wait_s, over)
    with doing.locks.held(wanted, doing.say) as held:
        if refused := held.why_not or _refusal(doing):
            return _not_run(doing, turn, refused)
        request = one.request.model_copy(update={"wait_for_lock": doing.planned.wait_for_lock})
        watch = replace(doing.watch, holds=held.descriptors)
        try:
            if not isinstance(doing.session.config.training, str):
                from tasks.stages.acceptance_program import play_program

                return play_program(doing.session, turn, doing.hands, watch, doing.say)
            return measure(replace(one, request=request), doing.hands, watch, doing.say)
        except InfrastructureError as error:
            return _not_run(doing, turn, str(error))


def _earlier(doing: Doing, turn: Turn) -> Callable[[], None]:
    """Returns what ends a run's earlier pass, where nobody goes on with that: of a program of somebody's own."""
    if isinstance(doing.session.config.training, str):
        return lambda: None
    from tasks.stages.acceptance_program import Earlier

    return Earlier(doing.session, turn, doing.hands, doing.watch, doing.say).ends


def _refusal(doing: Doing) -> str | None:
    if doing.watch.stop.is_set():
        return "the acceptance was interrupted"
    if time.time() >= doing.until:
        return f"the acceptance's time of {doing.session.config.limits.all} was over before its turn came"
    return None


def _not_run(doing: Doing, turn: Turn, cause: str) -> RunEnd:
    code = ExitCode.INTERRUPTED if doing.watch.stop.is_set() else ExitCode.INFRASTRUCTURE
    folder = f"{doing.session.output}/{turn.run.run_id}"
    return RunEnd(turn.run.run_id, folder, turn.run.cell.target, "not_run", int(code), [cause])


def _end_of(turn: Turn, end: RunEnd) -> CellEnd:
    cell = turn.run.cell
    return CellEnd(
        turn.title,
        cell.suite,
        cell.target,
        turn.variant.name,
        cell.target,
        end.status,
        end.cause if end.status != "passed" else "",
        end.trouble,
        [end],
    )


def _judged(
    doing: Doing, folder: Folder, record: AcceptanceRecord, ends: Sequence[CellEnd]
) -> AcceptanceRecord:
    """Returns the record with what its runs come to; writes the report."""
    from tasks.stages.acceptance_judge import judge

    try:
        found, summary = judge(doing.session, ends, folder)
    except InfrastructureError as error:
        doing.say(f"nothing was judged: {error}")
        return replace(record, troubles=[f"nothing was judged: {error}"])
    told: Mapping[str, Any] | None = found
    return replace(record, found=told, summary=summary)


def _refuse_unwritable(session: Session) -> None:
    if (problem := probe_writable(open_folder(session.uri))) is not None:
        fix = "name another folder as output:, or give yourself the right to write there"
        raise BadInput(replace(problem, what=f"{session.uri} is not writable", fix=fix))
