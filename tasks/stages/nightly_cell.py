"""One cell of a night: its runs, on its target or where else there is room, as long as time and money last."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from runtime.contract.errors import ELSEWHERE, ExitCode, InfrastructureError
from tasks.cloud.storage import open_folder
from tasks.config import duration
from tasks.config.nightly_cells import CellRun, Night, instead
from tasks.stages.context import Say
from tasks.stages.nightly_again import Repeated, repeated
from tasks.stages.nightly_cost import Cost, Purse, cost_of
from tasks.stages.nightly_locks import Locks, Wanted
from tasks.stages.nightly_plan import Planned, plan_cell
from tasks.stages.nightly_record import CellEnd, CellStatus
from tasks.stages.nightly_run import Hands, RunEnd, Watch, goes_on, measure, settled


@dataclass(frozen=True)
class Work:
    """What every cell of a night is given. `until`: seconds since the epoch, after which nothing begins."""

    night: Night
    hands: Hands
    watch: Watch
    purse: Purse
    until: float
    say: Say
    locks: Locks = field(default_factory=Locks)
    now: Callable[[], float] = time.time


def play_cell(work: Work, planned: Planned) -> CellEnd:
    """Makes the runs of a cell that are made in any case. Never raises for what happens to them."""
    tried: list[str] = []
    for one in _places_to_try(work, planned):
        end = _on_one_target(work, one, work.night.runs(one.cell))
        if end.trouble not in ELSEWHERE:
            break
        tried.append(f"{one.cell.target}: {end.cause}")
        work.say(f"{one.cell.title}: no room ({end.trouble}): {end.cause}")
    return replace(
        end, target=planned.cell.target, tried=tried if end.trouble not in ELSEWHERE else tried[:-1]
    )


def play_again(work: Work, planned: Planned, first: CellEnd, keys: Collection[str]) -> CellEnd:
    """Makes a cell's run once more, where its first one was, of benchmarks of these keys; returns it with both."""
    there = planned if first.at == planned.cell.target else plan_cell(work.night, planned.cell.at(first.at))
    chosen = Repeated() if there.wrong else repeated(work.night.again(there.cell).request, keys)
    work.say(f"{there.cell.title}: run again, {chosen.words}")
    end = _on_one_target(work, there, [work.night.again(there.cell, chosen.only)])
    again = chosen.words if end.runs else ""
    return replace(first, runs=[*first.runs, *end.runs], cost=first.cost + end.cost, again=again)


def spent_already(work: Work, planned: Planned) -> float:
    """Returns what the runs of a cell have cost, in US dollars, that an earlier pass of the night made."""
    if planned.wrong:
        return 0.0
    runs = [*work.night.runs(planned.cell), work.night.again(planned.cell)]
    ends = [end for one in runs if (end := settled(one)) is not None]
    return sum(cost_of(end, planned.price).dollars or 0.0 for end in ends)


def _places_to_try(work: Work, planned: Planned) -> Iterator[Planned]:
    yield planned
    for cell in instead(work.night.config, planned.cell):
        yield plan_cell(work.night, cell)


def _on_one_target(work: Work, planned: Planned, runs: Sequence[CellRun]) -> CellEnd:
    ends: list[RunEnd] = []
    cost = Cost()
    refused = "; ".join(planned.wrong)
    waiting = {"wait_for_lock": planned.wait_for_lock}
    for one in runs:
        if refused:
            break
        if (end := settled(one)) is not None:
            work.say(f"{one.run_id}: ended already, nothing was done")
            ends.append(end)
            cost += cost_of(end, planned.price)
            continue
        most = planned.price.at_most(work.watch.limit_s / 3600)
        with work.locks.held(_wanted(work, planned, one), work.say) as held:
            refused = held.why_not or _refusal(work) or work.purse.take(most) or ""
            if refused:
                break
            asked = replace(one, request=one.request.model_copy(update=waiting))
            end = _measured(work, asked, replace(work.watch, holds=held.descriptors))
            ends.append(end)
        spent = cost_of(end, planned.price)
        work.purse.settle(most, spent.dollars)
        cost += spent
        if end.status != "passed":
            break
    return _cell_end(planned, ends, cost, refused)


def _wanted(work: Work, planned: Planned, one: CellRun) -> Wanted:
    """Returns what a run has to itself; nothing where it goes on already, for then it is only waited for."""
    going = goes_on(one, work.hands)
    wait_s = duration.seconds(work.night.config.wait_for_lock)
    return Wanted(
        frozenset() if going else planned.places, f"measuring {one.run_id}", wait_s, lambda: _refusal(work)
    )


def _refusal(work: Work) -> str | None:
    """Returns why nothing begins any more, if so."""
    if work.watch.stop.is_set():
        return "the night was interrupted"
    if work.now() >= work.until:
        return f"the night's time of {work.night.config.limits.night} was over before its turn came"
    return None


def _measured(work: Work, one: CellRun, watch: Watch) -> RunEnd:
    """Makes a run; what fails here itself is told as the run's own end."""
    try:
        return measure(one, work.hands, watch, work.say)
    except InfrastructureError as error:
        return RunEnd(
            run_id=one.run_id,
            folder=f"{one.request.output}/{one.run_id}",
            target=one.cell.target,
            status="not_run",
            exit_code=int(ExitCode.INFRASTRUCTURE),
            causes=[str(error)],
            side=one.side,
            rerun=one.rerun,
        )


def _cell_end(planned: Planned, ends: Sequence[RunEnd], cost: Cost, refused: str) -> CellEnd:
    cell, last = planned.cell, ends[-1] if ends else None
    status: CellStatus = "not_run" if last is None or refused else last.status
    cause = refused or (last.cause if last is not None else "")
    if status == "not_run" and last is not None and not refused and (told := _partly(last)):
        status, cause = "partly", f"{told}: {cause}" if cause else told
    return CellEnd(
        title=cell.title,
        suite=cell.suite,
        target=cell.target,
        version=cell.version.name,
        at=cell.target,
        status=status,
        cause=cause,
        trouble=last.trouble if last is not None and not refused else None,
        runs=list(ends),
        cost=cost,
    )


def _partly(end: RunEnd) -> str:
    """Says how many benchmarks of a run did not pass, where others did; else nothing."""
    from tasks.history.reading import load_points

    try:
        results = load_points(open_folder(end.folder))
    except InfrastructureError:
        return ""
    return results.shortfall if results is not None and results.passed else ""
