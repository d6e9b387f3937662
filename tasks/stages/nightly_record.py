"""How a night goes and how it ended, as night.json has it: cells, their runs, what they cost."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.contract.errors import ExitCode, worst
from tasks.cloud.storage import Folder, read_json
from tasks.history.alerts import Event
from tasks.history.night_told import NightTold, SeriesTold
from tasks.history.verdict import Verdict
from tasks.stages.nightly_cost import Cost
from tasks.stages.nightly_run import RunEnd

NIGHT_FILE = "night.json"
_VERSION = 1

CellStatus = Literal["passed", "failed", "partly", "not_run"]


@dataclass(frozen=True)
class CellEnd:
    """How a cell ended. `at`: the target that it ran on; `tried`: others that had no room, with the reason.

    `partly`: some of its benchmarks ran and passed, others did not run. `cost` is of all its runs. `again`: what its
    second run repeated, in words; empty: it had none.
    """

    title: str
    suite: str
    target: str
    version: str
    at: str
    status: CellStatus
    cause: str = ""
    trouble: str | None = None
    runs: Sequence[RunEnd] = ()
    tried: Sequence[str] = ()
    cost: Cost = field(default_factory=Cost)
    again: str = ""

    @property
    def code(self) -> ExitCode:
        """Returns what it adds to the exit code of the night."""
        codes = {ExitCode(run.exit_code) for run in self.runs}
        if self.status == "failed":
            return worst([ExitCode.WORKLOAD_FAILED, *(codes & _ALWAYS)])
        if self.status == "passed":
            return worst(codes & _ALWAYS)
        return worst([ExitCode.INFRASTRUCTURE, *(codes & _ALWAYS)])


_ALWAYS = frozenset({ExitCode.LEAKED, ExitCode.INTERRUPTED})


@dataclass(frozen=True)
class NightRecord:
    """A night. Times in seconds since the epoch; `exit_code` None: it goes on, or was killed.

    `missing`: cells that have not come to their end. `told`: what is said of its series; None: nothing was judged.
    `alerts`: those that it opened or closed; `open_alerts`: all that are open after it. `site`: the folder with the
    pages of all series; empty: there is none. `summary`: what is said of it at its end, line by line.
    """

    nightly: str
    night: str
    began_at: float
    cells: Sequence[CellEnd] = ()
    ended_at: float | None = None
    exit_code: int | None = None
    budget: float | None = None
    prices_as_of: str = ""
    missing: Sequence[str] = ()
    told: NightTold | None = None
    alerts: Sequence[Event] = ()
    open_alerts: Sequence[Event] = ()
    troubles: Sequence[str] = ()
    site: str = ""
    summary: Sequence[str] = ()

    @property
    def regressed(self) -> Sequence[SeriesTold]:
        """Returns the series that are worse than before, whenever that began."""
        return [one for one in (self.told.series if self.told else ()) if one.verdict is Verdict.REGRESSED]

    @property
    def undecided(self) -> Sequence[SeriesTold]:
        """Returns the series that stand out in this night and are no change yet."""
        return [one for one in (self.told.series if self.told else ()) if one.open]

    @property
    def code(self) -> ExitCode:
        """Returns the exit code that follows from what is known."""
        codes = [cell.code for cell in self.cells]
        if self.regressed:
            codes.append(ExitCode.REGRESSION)
        if self.told is None or self.missing:  # never green where nobody looked
            codes.append(ExitCode.INFRASTRUCTURE)
        return worst(codes)

    @property
    def cost(self) -> Cost:
        """Returns what all of it cost."""
        total = Cost()
        for cell in self.cells:
            total += cell.cost
        return total

    def to_json(self) -> str:
        """Returns all of it as JSON text."""
        return json.dumps(self.plain(), indent=1, sort_keys=True)

    def plain(self) -> dict[str, Any]:
        """Returns all of it as JSON has it."""
        told = dataclasses.asdict(self) | {"cost": dataclasses.asdict(self.cost), "schema_version": _VERSION}
        return told | {
            "alerts": [one.message() for one in self.alerts],
            "open_alerts": [one.message() for one in self.open_alerts],
        }


def write_night(folder: Folder, record: NightRecord) -> None:
    """Writes it down as it stands."""
    folder.write(NIGHT_FILE, record.to_json().encode())


def began_at(folder: Folder, now: float) -> float:
    """Returns when a night began that is gone on with; now, where it begins."""
    found: Any = read_json(folder, NIGHT_FILE)
    at = found.get("began_at") if isinstance(found, Mapping) else None
    return float(at) if isinstance(at, int | float) else now
