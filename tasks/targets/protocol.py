"""The one interface behind which every place a workload can run lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tasks.targets.types import Bundle, Event, Image, Interpreter, Plan, Uploaded, Workers, WorkloadRef

if TYPE_CHECKING:
    from runtime.contract.errors import Problem
    from tasks.cloud.storage import Folder
    from tasks.config.spec import RunSpec
    from tasks.leases.holding import Holding


class Target(Protocol):
    """A place to run. All methods may be called again after a crash; only `acquire` and `start` make things."""

    def plan(self, spec: RunSpec) -> Plan:
        """Says what would be made. Pure: asks nothing outside. Raises BadInput when the suite cannot fit."""

    def preflight(self, plan: Plan) -> list[Problem]:
        """Looks, without changing anything, for what would stop the plan."""

    def image(self) -> Image | None:
        """Returns what the workers run where the target brings it; None where the stage *build* has to make
        it. Looks, but changes nothing. Raises BadInput when what it brings cannot be used.
        """

    def interpreter(self) -> Interpreter | None:
        """Returns the Python of workers elsewhere, for which *build* packs what `upload` makes a venv of there;
        None where workers run what *build* made on this machine. Looks, but changes nothing.
        """

    def acquire(self, plan: Plan, lease: Holding) -> Workers:
        """Adopts or makes the hardware, through the lease."""

    def upload(self, workers: Workers, bundle: Bundle, image: Image) -> Uploaded:
        """Brings the bundle to every worker."""

    def start(self, uploaded: Uploaded, attempt: int, lease: Holding) -> WorkloadRef:
        """Starts the supervisors. Called again for the same attempt it returns what already runs."""

    def renew(self, ref: WorkloadRef) -> None:
        """Tells every supervisor that the run lives; called after each renewal of the lease."""

    def follow(self, ref: WorkloadRef, since: Mapping[int, int]) -> Iterator[Event]:
        """Yields what workers say after the cursors in `since` (worker → cursor) until all have exited."""

    def fetch(self, ref: WorkloadRef, into: Folder) -> list[Problem]:
        """Brings home into the run's folder what workers wrote elsewhere; returns what could not be brought.

        Called again it brings all of it again. Where workers write into the run's folder it does nothing.
        """

    def stop(self, ref: WorkloadRef, grace_s: float) -> None:
        """Ends the workload: asks, waits `grace_s`, kills."""
