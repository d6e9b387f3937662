"""What the runs of an acceptance come to: starts of training, what lay in the store, what is proved, what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.contract.counting import counted
from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder, open_folder, read_json
from tasks.config.acceptance import Variant
from tasks.config.acceptance_turns import Session
from tasks.history.acceptance import Check, Start, Stored, Trial, accept
from tasks.history.acceptance_checks import AROUND, SEALED, losses_go_on, went_on
from tasks.history.acceptance_log import read_log
from tasks.history.acceptance_results import start_of
from tasks.history.acceptance_words import HEADINGS, figures, lines, rows
from tasks.history.results import SAMPLES_FILE
from tasks.history.samples import Damaged, NewerSchema, measurements, read_part
from tasks.stages.files import ATTEMPTS_FILE, REPORT_FILE, log_file
from tasks.stages.nightly_record import CellEnd
from tasks.stages.stopping import stopped_file

Attempt = Mapping[str, Any]


def judge(
    session: Session, ends: Sequence[CellEnd], folder: Folder
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Returns what an acceptance comes to, as numbers and in lines for people; writes its report.

    Raises InfrastructureError where what a run wrote cannot be read.
    """
    training = session.config.training
    pattern = None if isinstance(training, str) else training.loss
    known: dict[int, float] = {}
    by_variant: dict[str, list[Folder]] = {one.name: [] for one in session.config.variants}
    for turn, end in zip(session.turns(), ends, strict=True):
        if end.status == "not_run":
            continue
        run = open_folder(end.runs[0].folder)
        if turn.repeat is None:
            known = {step: loss for start in starts_of(run, pattern) for step, loss in start.losses.items()}
        else:
            by_variant[turn.variant.name].append(run)
    base = session.config.base.name
    plain = [stop for run in by_variant[base] for stop in _stops(run)]
    trials = [_trial(one, by_variant[one.name], known, plain, pattern) for one in session.config.variants]
    found = accept(trials, base, session.config.limit)
    summary = [*table(rows(found)), "", *lines(found)]
    _report(found, session, ends, folder)
    return figures(found), summary


def table(cells: Sequence[Sequence[str]]) -> list[str]:
    """Returns rows below their headings, as lines."""
    whole = [HEADINGS, *cells]
    widths = [max(len(row[column]) for row in whole) for column in range(len(HEADINGS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in whole
    ]


def _trial(
    variant: Variant,
    runs: Sequence[Folder],
    known: Mapping[int, float],
    plain: Sequence[Mapping[str, Any]],
    pattern: str | None,
) -> Trial:
    """`plain`: what lay in the store where nothing stood before it."""
    repeats = [starts_of(run, pattern) for run in runs]
    stops = [stop for run in runs for stop in _stops(run)]
    stored = [
        Stored(one["step"], one["objects"], one["bytes"])
        for stop in stops
        for one in stop.get("checkpoints", ())
        if one["step"] in stop["complete"]
    ]
    checks = [went_on(repeats), losses_go_on(repeats, known)]
    if variant.is_encrypting:
        shown, led = (any(stop.get(what) for stop in plain) for what in ("readable", "opened"))
        checks += [sealed(stops, shown), read_past(stops, led)]
    return Trial(variant.name, repeats, stored, checks)


def sealed(stops: Sequence[Mapping[str, Any]], shown: bool) -> Check:
    """Proves that nothing in the store is more than random bytes. `shown`: without a proxy the same look finds
    plaintext, else it proves nothing.
    """
    readable = [name for stop in stops for name in stop.get("readable", ())]
    looked = sum(stop.get("looked", 0) for stop in stops)
    if readable:
        told = f"{readable[0]} is readable"
        return Check(SEALED, False, f"{told}, and {len(readable) - 1} more" if readable[1:] else told)
    if not looked:
        return Check(SEALED, None, "there was no object to look at")
    if not shown:
        return Check(SEALED, None, "without a proxy nothing was found to be plaintext either")
    return Check(SEALED, True, f"{counted(looked, 'object')} looked at")


def read_past(stops: Sequence[Mapping[str, Any]], led: bool) -> Check:
    """Proves that who reads the bucket itself finds no checkpoint: what leads to its arrays makes no sense there.

    `led`: without a proxy the same look finds one by them, else it proves nothing.
    """
    tried = [name for stop in stops for name in stop.get("tried", ())]
    opened = [name for stop in stops for name in stop.get("opened", ())]
    if opened:
        return Check(AROUND, False, f"{opened[0]} was read past the proxy")
    if not tried:
        return Check(AROUND, None, "no file was found that leads to a checkpoint's arrays")
    if not led:
        return Check(AROUND, None, "without a proxy no such file was found to make sense either")
    told = f"{tried[0]} makes no sense there"
    return Check(AROUND, True, f"{told}, nor do {len(tried) - 1} others" if tried[1:] else told)


def starts_of(run: Folder, pattern: str | None = None) -> list[Start]:
    """Returns the starts of training that a run's last beginning had, in order. `pattern` finds losses in a log.

    Each is held against what was complete just before it, also where another was begun and cut since the stop.
    """
    loss = re.compile(pattern) if pattern else None
    written = read_json(run, ATTEMPTS_FILE) or []
    attempts, whole = list(_since_it_began(written)), {one["n"] - 1 for one in written if _had_nothing(one)}
    table = _samples(run)
    found: list[Start] = []
    newest: int | None = None
    seen = True
    for attempt in attempts:
        start = start_of(measurements(table, {0: attempt["n"]})) if table is not None else Start()
        log = (run.read(log_file(attempt["n"], 0)) or b"").decode(errors="replace")
        told = read_log(log.splitlines(), loss)[0]
        # One that was killed leaves no samples, and what it said until then; so do programs of others.
        start = start if start.saves or start.losses else told
        start = replace(
            start,
            losses=start.losses or told.losses,
            newest=newest,
            resumed=told.resumed if start.resumed is None else start.resumed,
            saved=told.saved,
            seen=seen,
            cut=not attempt.get("stopped")
            and attempt.get("end", "") not in ("", "succeeded")
            and attempt["n"] not in whole,
        )
        found.append(start)
        newest, seen = _newest(run, attempt, start), bool(attempt.get("stopped"))
    return found


def _newest(run: Folder, attempt: Attempt, start: Start) -> int | None:
    """Returns the newest step that was complete when an attempt was over: by what was heard of it, or by the store
    where it had no time to say it. Who was killed heard nothing; what was complete before is so yet.
    """
    heard = (attempt.get("reached") or {}).get("saved")
    stop = read_json(run, stopped_file(attempt["n"])) if attempt.get("stopped") else None
    committed = stop.get("committed") or () if isinstance(stop, dict) else ()
    # A stop may have kept the last that it said to have saved from being complete.
    said = () if attempt.get("stopped") else start.saved
    told = (heard, *committed, start.newest, start.resumed, *said)
    return max((step for step in told if step is not None), default=None)


def _since_it_began(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    counted_ = [one for one in attempts if one.get("counts", True) and not _had_nothing(one)]
    first = max((n for n, one in enumerate(counted_) if one.get("restart") is None), default=0)
    yield from counted_[first:]


def _had_nothing(attempt: Attempt) -> bool:
    """Says whether an attempt found that the one before, whoever was interrupted in it, had come to its end."""
    points = attempt.get("points")
    return points is not None and not points


def _samples(run: Folder) -> Any:
    content = run.read(SAMPLES_FILE)
    if content is None:
        return None
    try:
        return read_part(content)
    except (Damaged, NewerSchema) as error:
        raise InfrastructureError(f"{run.uri}/{SAMPLES_FILE} cannot be read: {error}") from error


def _stops(run: Folder) -> list[Mapping[str, Any]]:
    attempts = _since_it_began(read_json(run, ATTEMPTS_FILE) or [])
    found = [read_json(run, stopped_file(one["n"])) for one in attempts if one.get("stopped")]
    return [one for one in found if isinstance(one, dict)]


def _report(found: Any, session: Session, ends: Sequence[CellEnd], folder: Folder) -> None:
    from tasks.history.report.accepted import render_accepted

    facts = {
        "target": session.config.target,
        "training": session.turns()[0].run.cell.suite,
        "stopped after": counted(session.config.checkpoints, "complete checkpoint"),
        **{end.title: f"{end.status.replace('_', ' ')}, {end.runs[0].folder}" for end in ends if end.runs},
    }
    page = render_accepted(found, f"Acceptance {session.config.name}, {session.id}", list(facts.items()))
    folder.write(REPORT_FILE, page.encode())
