"""A night: its cells side by side where their hardware allows it, what they say together, and what is told of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode, worst
from tasks.cloud.prices import PRICES_VARIABLE, load_prices
from tasks.cloud.storage import open_folder, probe_writable
from tasks.config import duration
from tasks.config.home import home, runs_folder
from tasks.config.load import load_nightly
from tasks.config.locate import locate
from tasks.config.nightly_cells import Cell, Night, folder_at, night_of
from tasks.stages.context import Say
from tasks.stages.nightly_cell import Work, play_cell, spent_already
from tasks.stages.nightly_cost import Purse
from tasks.stages.nightly_places import lanes
from tasks.stages.nightly_plan import Planned, plan_night
from tasks.stages.nightly_record import CellEnd, NightRecord, began_at, write_night
from tasks.stages.nightly_report import report_night
from tasks.stages.nightly_run import Hands, Watch

PlayCell = Callable[[Work, Planned], CellEnd]


@dataclass(frozen=True)
class Steps:
    """What makes the runs of a cell: the plain function, or a task around it."""

    cell: PlayCell = play_cell


def open_night(file: str, date: str | None, now: datetime | None = None) -> Night:
    """Returns the night that a file and a date mean. Raises BadInput, with all problems; makes nothing."""
    path = locate(file, "nightly")
    config = load_nightly(path)
    base = str(path.parent)
    output = open_folder(folder_at(config.output, base, str(runs_folder()))).uri
    if config.prices:
        os.environ[PRICES_VARIABLE] = folder_at(config.prices, base, "")
    load_prices()
    return Night(config, night_of(config, now or datetime.now(UTC), date), base, output)


def play_night(night: Night, hands: Hands, say: Say, steps: Steps | None = None) -> NightRecord:
    """Plays a night to its report; called again for the same night it goes on with what is missing.

    Raises BadInput, having made nothing, where nothing of it can start; KeyboardInterrupt once all that was begun has
    given everything back and the report says so.
    """
    planned = plan_night(night)
    folder = open_folder(night.uri)
    if (problem := probe_writable(folder)) is not None:
        raise BadInput(
            replace(problem, fix="name another folder as output, or give yourself the right to write there")
        )
    now = time.time()
    limits = night.config.limits
    work = Work(
        night=night,
        hands=hands,
        watch=Watch(
            duration.seconds(limits.cell),
            duration.seconds(limits.stop),
            threading.Event(),
            home() / "nightly" / night.name,
        ),
        purse=Purse(night.config.budget),
        until=now + duration.seconds(limits.night),
        say=say,
    )
    record = NightRecord(
        night.config.name,
        night.date,
        began_at(folder, now),
        budget=night.config.budget,
        prices_as_of=load_prices().as_of,
    )
    playing = _Playing(work, record)
    say(f"night {night.date} of {night.config.name}: {counted(len(planned), 'cell')}, in {night.uri}")
    try:
        playing.first_runs(planned, (steps or Steps()).cell)
    except BaseException:
        playing.end(ExitCode.INTERRUPTED)
        raise
    playing.end()
    return playing.record


@dataclass
class _Playing:
    """A night as far as it has come; every step is written down as it is made."""

    work: Work
    record: NightRecord
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ends: dict[Cell, CellEnd] = field(default_factory=dict)
    _order: list[Cell] = field(default_factory=list)

    def first_runs(self, planned: Sequence[Planned], play: PlayCell) -> None:
        """Makes the runs that are made in any case, lane by lane."""
        self._order = [one.cell for one in planned]
        self.work.purse.settle(None, sum(spent_already(self.work, one) for one in planned))
        self._write()
        self._side_by_side(planned, play)

    def _side_by_side(self, planned: Sequence[Planned], play: PlayCell) -> None:
        by_cell = {one.cell: one for one in planned}
        ways = lanes([(one.cell, one.places) for one in planned])

        def drive(lane: Sequence[Cell]) -> None:
            for cell in lane:
                self._ended(cell, play(self.work, by_cell[cell]))

        at_once = self.work.night.config.limits.at_once
        with ThreadPoolExecutor(at_once, thread_name_prefix="lane") as pool:
            begun = [pool.submit(copy_context().run, drive, lane) for lane in ways]
            try:
                left = set(begun)
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
        ends = [self._ends[cell] for cell in self._order if cell in self._ends]
        missing = [cell.title for cell in self._order if cell not in self._ends]
        self.record = replace(self.record, cells=ends, missing=missing)
        write_night(open_folder(self.work.night.uri), self.record)

    def end(self, *codes: ExitCode) -> None:
        """Writes down how the night ended, and its report."""
        code = worst([*codes, *(cell.code for cell in self.record.cells)])
        self.record = replace(self.record, ended_at=time.time(), exit_code=int(code))
        report_night(open_folder(self.work.night.uri), self.record)
        self._write()
