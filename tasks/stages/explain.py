"""Explains a run: what state it is in, since when, what it waits for or why it failed, by what was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from runtime.contract.errors import ExitCode, Place
from runtime.contract.names import STAGES, STAGES_FOLDER
from tasks.cloud.storage import Folder, read_json
from tasks.config.commands import run_words
from tasks.explain.rules import troubles
from tasks.explain.scene import Line, Scene, Seen, Trouble
from tasks.history.torn import torn
from tasks.leases import owner as owners
from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger, latest
from tasks.leases.left import Left, commands, left_in
from tasks.leases.left import told as told_left
from tasks.leases.outcome import pass_began_at
from tasks.leases.staying import of_run, what_stands
from tasks.stages import evidence
from tasks.stages.asked import Asked, read_asked
from tasks.stages.files import OUTCOME_FILE, REQUEST_FILE
from tasks.stages.in_cluster import ask_there, links, workload_of
from tasks.stages.typed import typed

State = Literal["done", "failed", "interrupted", "dead", "starting", "going", "left", "unknown"]
"""`starting`: somebody waits for it to begin. `dead`: nobody works on it and nobody said how it ended. `left`: nobody
works on it, and nobody need: its workload goes on by itself. `unknown`: whether somebody does is not known."""

_LATELY = 20
"""Lines of a going run's log that may say what it waits for; older ones are overcome."""


@dataclass(frozen=True)
class Explanation:
    """What is known of a run. `since` is seconds since the epoch; `stage` is where it is or where it ended.

    `likely` are troubles, the root first; `also` are some that only stand in a log. `unknown` says what the record
    does not tell, and how to look. `standing`: what is still there under leases other than the run's own.
    """

    run_id: str
    state: State
    stage: str | None
    since: float | None
    summary: str
    causes: Sequence[Line] = ()
    likely: Sequence[Trouble] = ()
    also: Sequence[Trouble] = ()
    workers: Sequence[Seen] = ()
    stacks: Sequence[str] = ()
    lease: str = ""
    standing: Sequence[str] = ()
    last_words: Sequence[Line] = ()
    unknown: Sequence[str] = ()
    next: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()


def explain(folder: Folder, run_id: str, ledger: Ledger) -> Explanation:
    """Reads a run's folder and lease. Raises InfrastructureError when they cannot be read."""
    if (asked := read_asked(folder)) is not None:
        return _starting(run_id, run_words(folder.uri), asked)
    request = read_json(folder, REQUEST_FILE) or {}
    outcome = read_json(folder, OUTCOME_FILE)
    done = dict(evidence.markers(folder, STAGES, STAGES_FOLDER))
    stage, since = place_in_pipeline(done, pass_began_at(folder) or request.get("created_at"))
    lease = latest(ledger, run_id)
    left = left_in(folder)
    state = state_of(outcome, lease, left)
    over = state in ("done", "failed", "interrupted", "dead")
    run = run_words(folder.uri)
    said = evidence.causes(folder)
    words = evidence.run_log(folder)
    worker_lines = evidence.logs(folder) if over and state != "done" else []
    if state == "left" and left is not None and lease is not None:
        return replace(_left(left, folder.uri, lease, words), links=links(folder))
    lines = [*said, *words, *worker_lines] if over else words[-_LATELY:]
    workers = evidence.workers(folder)
    seen = Scene(run_id, run, outcome is not None, [] if state == "done" else lines, workers, _torn(folder))
    seen = replace(seen, trouble=outcome.get("trouble") if outcome is not None and over else None)
    scene = _with_lease(seen, lease, ledger.uri)
    standing = of_run(ledger, run_id, lease.lease_id if lease else None) if over else ()
    ref = workload_of(folder)
    found = [replace(one, next=typed(one.next, request, ref)) for one in troubles(scene)]
    likely, also = _ranked(found, said)
    return Explanation(
        run_id,
        state,
        stage=None if state == "done" else stage,
        since=since if outcome is None else outcome.get("finished_at"),
        summary=_summary(state, stage, outcome, lease),
        causes=said,
        likely=likely,
        also=also,
        workers=[] if state == "done" else workers,
        stacks=[str(place) for place in evidence.stacks(worker_lines)],
        lease=_lease_words(lease),
        standing=[what_stands(one, but=run_id) for one in standing],
        last_words=words[-3:],
        unknown=[*_unknown(state, likely, workers, stage, lease), *evidence.broken(folder)],
        next=[
            *_next(state, run, likely, "" if over else ask_there(folder)),
            *(["slicebench reap   # gives back what is still there"] if standing else []),
        ],
        links=[] if state == "done" else links(folder),
    )


def _starting(run_id: str, run: str, asked: Asked) -> Explanation:
    """Returns all that there is to say of a run that has not begun, or not begun again."""
    summary = "it is starting: Prefect comes up for it, or one of its workers is still to take it"
    return Explanation(run_id, "starting", None, asked.at, summary, next=[f"slicebench logs {run} --follow"])


def _left(left: Left, run_uri: str, lease: Lease, words: Sequence[Line]) -> Explanation:
    """Returns what there is to say of a run whose workload goes on by itself: how that is, its cluster knows."""
    return Explanation(
        str(lease.run_id),
        "left",
        "run",
        lease.renewed_at,
        told_left(left),
        lease=_lease_words(lease),
        last_words=words[-3:],
        next=[f"{command}   # {what}" for what, command in commands(left, run_uri, lease.name)],
    )


def place_in_pipeline(
    done: Mapping[str, Mapping[str, Any]], began_at: float | None
) -> tuple[str | None, float | None]:
    """Returns the first stage that has not finished, and since when it is on: the end of the one before. Pure.

    `began_at` is when the latest pass began: what an earlier one finished did not end in this one.
    """
    since = began_at
    for stage in STAGES:
        if stage not in done:
            return stage, since
        finished_at = done[stage].get("finished_at")
        if isinstance(finished_at, int | float):
            since = max(since or 0.0, finished_at)
    return None, since


def state_of(outcome: Mapping[str, Any] | None, lease: Lease | None, left: Left | None = None) -> State:
    """Returns the state of a run from how it says it ended, else from whether its lease's owner lives.

    `left`: what it left to itself, by its folder; it is so for as long as a lease without an owner stands for it.
    """
    if left is not None and lease is not None and lease.owner is None and lease.state == "live":
        return "left"
    if lease is not None and lease.owner is not None and lease.state in ("planned", "creating", "live"):
        alive = owners.is_alive(lease.owner)
        # A run that is resumed still has the outcome of the time before.
        if alive and lease.run_id:
            return "going"
        if outcome is None:
            return "unknown" if alive is None else "dead"
    if outcome is None:
        return "unknown" if lease is None else "dead"
    code = outcome.get("exit_code")
    if code in (ExitCode.DONE, ExitCode.REGRESSION):
        return "done"
    return "interrupted" if code == ExitCode.INTERRUPTED else "failed"


def _torn(folder: Folder) -> list[Line]:
    return [Line(Place(one.place), one.what, said=True) for one in torn(folder)]


def _with_lease(scene: Scene, lease: Lease | None, ledger_uri: str) -> Scene:
    if lease is None:
        return scene
    return replace(
        scene,
        lease_id=lease.lease_id,
        lease_state=str(lease.state),
        lease_note=lease.note,
        lease_place=f"{ledger_uri}/{lease.lease_id}.json",
        owner=str(lease.owner or ""),
        owner_alive=owners.is_alive(lease.owner) if lease.owner else None,
    )


def _ranked(found: Sequence[Trouble], said: Sequence[Line]) -> tuple[list[Trouble], list[Trouble]]:
    """Splits troubles into those that slicebench's own account shows and those that only logs do."""
    sure = [trouble for trouble in found if not said or any(line.said for line in trouble.evidence)]
    sure += [one for one in found if one.name in ("slicebench_killed", "lease_leaked") and one not in sure]
    return sure, [trouble for trouble in found if trouble not in sure]


def _summary(state: State, stage: str | None, outcome: Mapping[str, Any] | None, lease: Lease | None) -> str:
    at = f"stage {stage}" if stage else "its end"
    if state == "done":
        assert outcome is not None
        return f"it ran to its end: verdict {outcome.get('verdict') or 'none'}"
    if state in ("failed", "interrupted"):
        assert outcome is not None
        code = outcome.get("exit_code")
        name = ExitCode(code).name if code in list(ExitCode) else "unknown"
        return f"it {state if state == 'failed' else 'was interrupted'}: exit code {code} ({name})"
    if state == "dead":
        return f"nobody works on it any more: it stopped in {at} without saying how it ended"
    if state == "going":
        return f"it is going on, in {at}"
    who = "it has no lease yet" if lease is None else f"its owner is {lease.owner}, elsewhere"
    return f"it has not ended; it is in {at}; {who}"


def _lease_words(lease: Lease | None) -> str:
    if lease is None:
        return ""
    owner = f"; owner: {lease.owner}" if lease.owner else ""
    return f"{lease.lease_id} is {lease.state}{owner}" + (f" ({lease.note})" if lease.note else "")


def _unknown(
    state: State, likely: Sequence[Trouble], workers: Sequence[Seen], stage: str | None, lease: Lease | None
) -> list[str]:
    said = [trouble.unknown for trouble in likely if trouble.unknown]
    if state == "unknown":
        where = f"on {lease.owner.host}" if lease and lease.owner else "here"
        said.append(f"whether a process still works on it: look for slicebench in `ps -ef` {where}")
    if state == "going" and stage == "run" and not workers:
        said.append(
            "what each worker is in: their streams lie on other hosts; see slicebench logs RUN --follow"
        )
    if state in ("failed", "dead") and not likely:
        said.append(
            "no known trouble fits: the causes above, and the ends of run.log and logs/, are all there is"
        )
    return said


def _next(state: State, run: str, likely: Sequence[Trouble], ask: str) -> list[str]:
    commands = [command for trouble in likely for command in trouble.next]
    if state == "done":
        commands.append(f"slicebench report {run}")
    if state in ("failed", "interrupted", "dead"):
        commands += [f"slicebench logs {run}", f"slicebench run --resume {run}"]
    if state in ("going", "unknown"):
        commands.append(f"slicebench logs {run} --follow")
        commands += [f"{ask}   # what its cluster says"] if ask else []
    once: dict[str, str] = {}
    for command in commands:  # the first says why
        once.setdefault(command.partition("   #")[0], command)
    return list(once.values())
