"""How an acceptance goes and how it ended, as acceptance.json has it: its runs, and what they come to."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.contract.errors import ExitCode, worst
from tasks.cloud.storage import Folder, read_json
from tasks.stages.nightly_record import CellEnd

ACCEPTANCE_FILE = "acceptance.json"
_VERSION = 1


@dataclass(frozen=True)
class AcceptanceRecord:
    """A session. Times in seconds since the epoch; `exit_code` None: it goes on, or was killed.

    `asks`: what tells its file from others; `cells`: its runs that have come to their end, one each; `missing`: titles
    of the others. `found`: what they come to, as numbers; None: nothing was judged. `summary`: what is said at its end.
    """

    acceptance: str
    id: str
    asks: str
    began_at: float
    cells: Sequence[CellEnd] = ()
    missing: Sequence[str] = ()
    ended_at: float | None = None
    exit_code: int | None = None
    found: Mapping[str, Any] | None = None
    troubles: Sequence[str] = ()
    summary: Sequence[str] = ()

    @property
    def code(self) -> ExitCode:
        """Returns the exit code that follows from what is known."""
        codes = [cell.code for cell in self.cells]
        if self.missing or self.found is None:
            codes.append(ExitCode.INFRASTRUCTURE)
        if self.found is not None:
            codes += [_code_of(one) for one in self.found["variants"]]
        return worst(codes)

    @property
    def answer(self) -> str:
        """Returns what it came to, in a line."""
        if self.troubles:
            return self.troubles[0]
        bad = [cell for cell in self.cells if cell.status != "passed"]
        if bad:
            return f"{bad[0].title}: {bad[0].status.replace('_', ' ')}: {bad[0].cause}"
        return self.summary[-1] if self.summary else "nothing was judged"

    def plain(self) -> dict[str, Any]:
        """Returns all of it as JSON has it."""
        return dataclasses.asdict(self) | {"schema_version": _VERSION}


def _code_of(variant: Mapping[str, Any]) -> ExitCode:
    """Returns what a variant adds: what is disproved is a failure, what costs too much a regression."""
    if any(check["passed"] is False for check in variant["checks"]):
        return ExitCode.WORKLOAD_FAILED
    return ExitCode.REGRESSION if variant["verdict"] == "refused" else ExitCode.DONE


def write_record(folder: Folder, record: AcceptanceRecord) -> None:
    """Writes it down as it stands."""
    folder.write(ACCEPTANCE_FILE, json.dumps(record.plain(), indent=1, sort_keys=True).encode())


def read_record(folder: Folder) -> Mapping[str, Any]:
    """Returns what is written down; nothing where nothing is, or that is damaged."""
    found = read_json(folder, ACCEPTANCE_FILE)
    return found if isinstance(found, Mapping) else {}
