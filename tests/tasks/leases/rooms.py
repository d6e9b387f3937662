"""Hardware for tests: rooms in a building, which is a folder of files of its own, with prices and no dead man.

It shares no code with the product's inventories: a room is a file with the lease's and the ledger's id in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from tasks.leases.holding import Holding
from tasks.leases.inventory import HERE, Found, Pace
from tasks.leases.resource import ResourceRef

SCOPE = "building"


@dataclass
class Rooms:
    """The building and its inventory. `refuses` maps a room to how many deletions are refused, by `says`."""

    folder: Path
    ledger_id: str
    kind: str = "room"
    pace: Pace = HERE
    settle_s: float = 0.0
    after: frozenset[str] = frozenset({"process"})
    refuses: dict[str, int] = field(default_factory=dict)
    says: type[InfrastructureError] = InfrastructureError
    asked: list[str] = field(default_factory=list)

    def open(self, name: str, labels: Mapping[str, str]) -> str:
        """Makes a room; returns its uid."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / name
        file.write_text(f"{labels['SLICEBENCH_LEASE']} {labels['SLICEBENCH_LEDGER_ID']}")
        return f"{name}#{file.stat().st_ino}"

    def rent(self, holding: Holding, name: str) -> ResourceRef:
        """Makes a room through a lease."""
        return holding.create(self.kind, SCOPE, name, lambda: self.open(name, holding.labels))

    def names(self) -> list[str]:
        """Returns every room there is."""
        return sorted(file.name for file in self.folder.glob("*"))

    def sees(self, scope: str) -> bool:
        return scope == SCOPE

    def list(self, lease_id: str | None) -> Sequence[Found]:
        found = []
        for file in sorted(self.folder.glob("*")):
            with contextlib.suppress(FileNotFoundError):  # given back meanwhile
                lease, ledger = file.read_text().split()
                if ledger == self.ledger_id and lease_id in (None, lease):
                    ref = ResourceRef(self.kind, SCOPE, file.name, f"{file.name}#{file.stat().st_ino}")
                    found.append(Found(lease, ref))
        return found

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        return ref if (self.folder / ref.name).exists() else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        self.asked.append(ref.name)
        if self.refuses.get(ref.name, 0) > 0:
            self.refuses[ref.name] -= 1
            raise self.says(f"room {ref.name} is refused: somebody is in it")
        (self.folder / ref.name).unlink(missing_ok=True)
