"""What the reaper comes to: its judgement of a lease, and what it then did about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runtime.contract.errors import ExitCode
from tasks.leases.resource import ResourceRef

Act = Literal["keep", "watch", "release", "put back"]
Did = Literal[
    "kept",
    "released",
    "put back",
    "released in part",
    "told",
    "would release",
    "would put back",
    "leaked",
    "unreadable",
    "not reachable",
    "not listed",
    "elsewhere",
    "failed",
]


@dataclass(frozen=True)
class Judgement:
    """What is to become of a lease, and why. `watch`: release it unless it is renewed before our eyes.

    `put back`: who worked on it is gone, and what was made is to stay, as it was kept before.
    """

    act: Act
    why: str


@dataclass(frozen=True)
class Finding:
    """What the reaper did about one lease, or (`dry_run`) would do."""

    lease_id: str
    did: Did
    why: str
    resources: tuple[ResourceRef, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """LEAKED for what could not be proven gone, INFRASTRUCTURE for what could not be read or looked at."""
        blind = ExitCode.INFRASTRUCTURE
        codes = {"leaked": ExitCode.LEAKED, "unreadable": blind, "not listed": blind, "failed": blind}
        return codes.get(self.did, ExitCode.DONE)
