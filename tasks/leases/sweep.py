"""What one deletion under way sees and asks to go: of a lease, all that is labelled with it or written in it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.contract.errors import InfrastructureError
from tasks.cloud.google_calls import NotAllowed
from tasks.leases.beyond import waits_for
from tasks.leases.inventory import Found, Inventories, Inventory, Pace, PartlyListed, Telling
from tasks.leases.patience import Patience
from tasks.leases.resource import ResourceRef, outermost


@dataclass
class Sweep:
    """One deletion under way: what was seen, what was asked to go, and what went wrong."""

    inventories: Inventories
    lease_id: str | None  # None: only what is known goes, whatever else the lease has
    known: tuple[ResourceRef, ...]
    seen: dict[tuple[str, str], ResourceRef] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    problems: dict[str, None] = field(default_factory=dict)
    unseen: dict[str, ResourceRef] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    """Of `problems`, those that last until somebody grants something."""

    def look(self) -> list[ResourceRef]:
        """Returns what is there, as far as the inventories can tell; `problems` holds what they cannot."""
        self.problems.clear()
        self.unseen.clear()
        self.denied.clear()
        present: dict[tuple[str, str], ResourceRef] = {}
        adopted = {(ref.kind, ref.uid or ref.name) for ref in self.known if not ref.ours}
        for kind, inventory in self.inventories.items():
            if self.lease_id is None or (inventory.pace.remote and kind not in self.kinds):
                continue
            for found in self._list(inventory):
                present[kind, found.ref.uid or found.ref.name] = found.ref
        # What was seen once is looked for by itself: an orphan may have no label that a list would find.
        for ref in (*outermost(self.known), *self.seen.values()):
            there = self._get(ref) if ref.ours else None
            if there is not None:
                present[ref.kind, there.uid or there.name] = there
        present = {key: ref for key, ref in present.items() if key not in adopted}
        self.seen.update(present)
        return list(present.values())

    def _list(self, inventory: Inventory) -> Sequence[Found]:
        try:
            return inventory.list(self.lease_id)
        except PartlyListed as error:
            # A lease that the ledger does not know is looked for everywhere, and was found in some places only.
            if error.silent & {ref.scope.partition("/")[0] for ref in self.known}:
                self._fails(f"cannot list {inventory.kind}: {error}", error)
            return error.found
        except InfrastructureError as error:
            self._fails(f"cannot list {inventory.kind}: {error}", error)
            return []

    @property
    def kinds(self) -> set[str]:
        """The kinds of what the lease has or had, as far as is known by now."""
        return {ref.kind for ref in (*outermost(self.known), *self.seen.values())}

    def paces(self) -> list[Pace]:
        """Returns how quickly each kind of what is to go can go."""
        return [self.inventories[kind].pace for kind in self.kinds if kind in self.inventories]

    def limit_s(self, present: Sequence[ResourceRef], patience: Patience) -> float:
        """Returns how long all of it may take: less, where all that is left is what nobody answers about."""
        slowest = [pace.goes_within_s for pace in self.paces() if pace.remote]
        kinds = {ref.kind for ref in self.unseen.values()} & self.inventories.keys()
        silent = [self.inventories[kind].pace.silent_s for kind in kinds]
        if not present and silent and all(one is not None for one in silent):
            slowest = [one for one in silent if one is not None]
        return min(max((patience.deadline_s, *slowest)), patience.at_most_s)

    def is_denied(self, present: Sequence[ResourceRef]) -> bool:
        """Whether all that goes wrong is what one may not do, and nothing that was asked to go is still going."""
        going = any((ref.kind, ref.uid or ref.name) in self.asked for ref in present)
        return bool(self.denied) and self.denied == set(self.problems) and not going

    def told(self, present: Sequence[ResourceRef]) -> str:
        """Returns what is waited for, for people."""
        left = [f"{ref.kind} {ref.name} to be gone" for ref in present[:3]]
        more = [f"{len(present) - 3} more"] if len(present) > 3 else []
        why = self.why_still(present)
        return "; ".join((*left, *more, *self.problems, *why)) or "what was just begun to show"

    def why_still(self, present: Sequence[ResourceRef]) -> list[str]:
        """Returns what keeps the first of what is there from going, as far as its inventory can tell."""
        told: dict[str, None] = {}
        for ref in present[:3]:
            inventory = self.inventories.get(ref.kind)
            if isinstance(inventory, Telling):
                with contextlib.suppress(InfrastructureError):
                    told[inventory.why_still(ref)] = None
        return list(filter(None, told))

    def _get(self, ref: ResourceRef) -> ResourceRef | None:
        inventory = self.inventories.get(ref.kind)
        try:
            if inventory is None:
                raise InfrastructureError(
                    f"no inventory of {ref.kind} here, so nobody can say that it is gone"
                )
            if not inventory.sees(ref.scope):
                raise InfrastructureError(f"it is in {ref.scope}, which cannot be looked at from here")
            return inventory.get(ref)
        except InfrastructureError as error:
            self.unseen[ref.key] = ref
            self._fails(f"cannot look at {ref.kind} {ref.name}: {error}", error)
            return None

    def cleared(self, present: Sequence[ResourceRef]) -> list[ResourceRef]:
        """Returns what is gone elsewhere and had to be before something that is present may go: keys, say."""
        if self.problems:
            return []
        first = {kind for ref in present for kind in self.inventories[ref.kind].after}
        there = {(ref.kind, ref.uid) for ref in present}
        return [
            ref
            for ref in outermost(self.known)
            if ref.ours and ref.uid is not None and ref.kind in first and (ref.kind, ref.uid) not in there
            and self.inventories[ref.kind].pace.remote
        ]  # fmt: skip

    def ask(self, present: Sequence[ResourceRef], force: bool) -> None:
        """Asks each thing to go, in order of kinds: once politely, then again and again with force."""
        standing = {ref.kind for ref in present}
        for ref in present:
            inventory = self.inventories[ref.kind]
            if inventory.after & standing:
                continue
            if any(waits_for(ref, other, self.inventories) for other in self.unseen.values()):
                continue
            key = (ref.kind, ref.uid or ref.name)
            if key in self.asked and not force:
                continue
            try:
                self.inventories[ref.kind].delete(ref, force=force)
                self.asked.add(key)
            except InfrastructureError as error:
                self._fails(f"cannot delete {ref.kind} {ref.name}: {error}", error)

    def _fails(self, told: str, error: InfrastructureError) -> None:
        self.problems[told] = None
        causes = error.errors.values() if isinstance(error, PartlyListed) else (error,)
        if all(isinstance(one, NotAllowed) for one in causes):
            self.denied.add(told)
