"""A night under way: as far as it has come; every step is written down as it is made, so that another can go on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from runtime.contract.errors import ExitCode, InfrastructureError, worst
from tasks.cloud.storage import Folder, open_folder, read_json
from tasks.config.nightly_cells import Cell, Night
from tasks.history.alerts import open_alerts, to_tell
from tasks.stages.files import REPORT_FILE
from tasks.stages.nightly_alerts import Channel, channels_of, read_events, send_unsent, write_events
from tasks.stages.nightly_cell import Work, play_again, play_cell, spent_already
from tasks.stages.nightly_judge import Judge
from tasks.stages.nightly_places import lanes
from tasks.stages.nightly_plan import Planned
from tasks.stages.nightly_record import CellEnd, NightRecord, write_night
from tasks.stages.nightly_report import report_night, summary_lines
from tasks.stages.nightly_wrong import right_again, wrong_in

AGAIN_FILE = "again.json"
"""Cells that are run again, with the keys of what stood out in them: a night that is gone on with runs the same ones,
whatever their second runs say."""


PlayCell = Callable[[Work, Planned], CellEnd]
PlayAgain = Callable[[Work, Planned, CellEnd, Collection[str]], CellEnd]


@dataclass(frozen=True)
class Steps:
    """What makes the runs of a cell, the plain functions or tasks around them; who judges; who else hears of alerts."""

    cell: PlayCell = play_cell
    again: PlayAgain = play_again
    judge: Callable[[Night], Judge] | None = None
    channels: Sequence[Channel] = ()


@dataclass
class Playing:
    """`record` is what is known so far."""

    work: Work
    record: NightRecord
    steps: Steps
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ends: dict[Cell, CellEnd] = field(default_factory=dict)
    _order: list[Cell] = field(default_factory=list)

    @cached_property
    def folder(self) -> Folder:
        """The night's own folder."""
        return open_folder(self.work.night.uri)

    @cached_property
    def history(self) -> Folder:
        """Where nights are remembered."""
        return open_folder(self.work.night.history)

    def first_runs(self, planned: Sequence[Planned]) -> None:
        """Makes the runs that are made in any case, lane by lane."""
        self._order = [one.cell for one in planned]
        self.work.purse.settle(None, sum(spent_already(self.work, one) for one in planned))
        self._write()
        self._side_by_side(planned, self.steps.cell)

    def judge(self, planned: Sequence[Planned]) -> None:
        """Takes the runs into the history, runs suspects again, and decides; what fails here is told and red."""
        try:
            judge = self._judge()
            troubles = judge.take_in(self._known())
            self._again(judge, planned)
            troubles += judge.take_in(self._known())
            told = judge.decide(self._known())
            troubles += told.troubles
            self.record = replace(self.record, told=told, troubles=list(dict.fromkeys(troubles)))
        except InfrastructureError as error:
            self.record = replace(self.record, troubles=[f"nothing was judged: {error}"])
            self.work.say(f"nothing was judged: {error}")

    def _judge(self) -> Judge:
        if self.steps.judge is not None:
            return self.steps.judge(self.work.night)
        from tasks.stages.history import open_history
        from tasks.stages.nightly_history import HistoryJudge

        night = self.work.night
        return HistoryJudge(open_history(night.history), night.date, night.config.thresholds)

    def _again(self, judge: Judge, planned: Sequence[Planned]) -> None:
        """Runs the cells again in which something stands out: that is chance, or it is seen twice."""
        candidates = {
            one.cell.title: one
            for one in planned
            if self._ends[one.cell].status == "passed" and not one.cell.takes_turns
        }
        found = judge.suspects([self._ends[one.cell] for one in candidates.values()])
        wanted = {**found, **_chosen_before(read_json(self.folder, AGAIN_FILE))}
        written = {title: sorted(keys) for title, keys in sorted(wanted.items())}
        self.folder.write(AGAIN_FILE, json.dumps(written).encode())
        chosen = [one for title, one in candidates.items() if title in wanted]
        if chosen:
            self.work.say(
                f"run again, for something stands out: {', '.join(one.cell.title for one in chosen)}"
            )
        firsts = dict(self._ends)

        def again(work: Work, one: Planned) -> CellEnd:
            return self.steps.again(work, one, firsts[one.cell], wanted[one.cell.title])

        self._side_by_side(chosen, again)

    def alert(self) -> None:
        """Writes down the alerts that the night opens and closes."""
        night = self.work.night
        report = f"{night.uri}/{REPORT_FILE}"
        try:
            before = read_events(self.history, night.config.name)
            wrong, right = wrong_in(self.record), right_again(self.record, before)
            new = to_tell(before, wrong, right, night.config.name, night.date, time.time(), report)
            write_events(self.history, new)
            events = read_events(self.history, night.config.name)
        except InfrastructureError as error:
            self._trouble(f"alerts could not be written: {error}")
            return
        of_tonight = [event for event in events if event.night == night.date]
        opened = sorted(open_alerts(events).values(), key=lambda event: event.at)
        self.record = replace(self.record, alerts=of_tonight, open_alerts=opened)

    def write_site(self) -> None:
        """Writes the pages of all series, which the report leads to."""
        night = self.work.night
        if not night.site or self.record.told is None:
            return
        from tasks.stages.history import look, open_history
        from tasks.stages.history_site import write_site

        self.work.say(f"writing the pages of all series into {night.site}")
        try:
            dataset = open_history(night.history)
            write_site(open_folder(night.site), dataset, look(dataset))
        except InfrastructureError as error:
            self._trouble(f"the pages of all series could not be written: {error}")
            return
        self.record = replace(self.record, site=night.site)

    def send(self) -> None:
        """Sends what was not sent yet, once the report that alerts lead to is there."""
        night = self.work.night
        channels = [*channels_of(night.config, night.base, self.work.hands.environ), *self.steps.channels]
        try:
            events = read_events(self.history, night.config.name)
            troubles = send_unsent(self.history, events, channels, time.time())
        except InfrastructureError as error:
            troubles = [f"alerts could not be sent: {error}"]
        if troubles:
            for trouble in troubles:
                self._trouble(trouble)
            self._write_all()

    def end(self, *codes: ExitCode) -> None:
        """Writes down how the night ended, and its report."""
        code = worst([*codes, self.record.code])
        self.record = replace(self.record, ended_at=time.time(), exit_code=int(code))
        self._write_all()

    def _known(self) -> list[CellEnd]:
        return [self._ends[cell] for cell in self._order if cell in self._ends]

    def _trouble(self, told: str) -> None:
        self.work.say(told)
        self.record = replace(self.record, troubles=[*self.record.troubles, told])

    def _side_by_side(self, planned: Sequence[Planned], play: Callable[[Work, Planned], CellEnd]) -> None:
        by_cell: Mapping[Cell, Planned] = {one.cell: one for one in planned}
        ways = lanes([(one.cell, one.places) for one in planned])

        def drive(lane: Sequence[Cell]) -> None:
            for cell in lane:
                self._ended(cell, play(self.work, by_cell[cell]))

        at_once = self.work.night.config.limits.at_once
        with ThreadPoolExecutor(at_once, thread_name_prefix="lane") as pool:
            begun = [pool.submit(copy_context().run, drive, lane) for lane in ways]
            try:
                left: set[Any] = set(begun)
                while left:  # a signal that another thread was given is heard between two looks
                    done, left = wait(left, timeout=1.0, return_when=FIRST_EXCEPTION)
                    for one in done:
                        one.result()
            finally:
                # Whatever ended this, a signal or a fault of ours: what goes on is told to stop, and waited for.
                if not all(one.done() for one in begun):
                    self.work.watch.stop.set()

    def _ended(self, cell: Cell, end: CellEnd) -> None:
        with self._lock:
            self._ends[cell] = end
            self._write()
        self.work.say(
            f"{end.title}: {end.status.replace('_', ' ')}" + (f": {end.cause}" if end.cause else "")
        )

    def _write(self) -> None:
        missing = [cell.title for cell in self._order if cell not in self._ends]
        self.record = replace(self.record, cells=self._known(), missing=missing)
        write_night(self.folder, self.record)

    def _write_all(self) -> None:
        self.record = replace(self.record, summary=summary_lines(self.record))
        report_night(self.folder, self.record)
        self._write()


def _chosen_before(written: object) -> Mapping[str, Collection[str]]:
    """Returns what a night that is gone on with had chosen to run again; earlier versions chose whole cells."""
    if isinstance(written, Mapping):
        return {str(title): keys for title, keys in written.items() if isinstance(keys, list)}
    return dict.fromkeys(map(str, written), ()) if isinstance(written, list) else {}
