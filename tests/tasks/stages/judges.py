"""A judge without a history: says what it is told to say, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import InfrastructureError
from tasks.history.night_told import NightTold
from tasks.stages.nightly_record import CellEnd


@dataclass
class Judge:
    """`stands_out`: words in titles of cells to run again, and `keys` of what does in them; `says`: the decision.

    `away`: the history is.
    """

    stands_out: Sequence[str] = ()
    keys: Sequence[str] = ()
    says: NightTold = field(default_factory=NightTold)
    away: bool = False
    taken: list[str] = field(default_factory=list)

    def take_in(self, cells: Sequence[CellEnd]) -> list[str]:
        if self.away:
            raise InfrastructureError("the bucket is away")
        self.taken += [run.run_id for cell in cells for run in cell.runs if run.run_id not in self.taken]
        return []

    def suspects(self, cells: Sequence[CellEnd]) -> Mapping[str, Sequence[str]]:
        return {
            cell.title: self.keys for cell in cells if any(word in cell.title for word in self.stands_out)
        }

    def decide(self, cells: Sequence[CellEnd]) -> NightTold:
        return self.says
