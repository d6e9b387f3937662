"""A run's claim on TPU VMs that are not its own, kept up while it works there: looked at often, written in time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from types import TracebackType

from runtime.contract.errors import InfrastructureError
from tasks.cloud.timing import Timing
from tasks.cloud.tpu import CloudTpu
from tasks.leases.holding import Holding
from tasks.leases.resource import ResourceRef
from tasks.leases.tpu_entries import ENTRY, REFRESH_S, refresh

LOOK_S = 60.0
"""How often one looks whose entry stands, seconds: one call for each TPU VM."""

_TIMING = Timing(try_s=8.0, total_s=10.0)
"""Short: whoever ends a block waits for a look that is under way."""


class Ousted(InfrastructureError):
    """Another run's entry took the place of ours: what is measured from then on is worth nothing."""


class Stay:
    """Within the block the entries of a lease are kept up, in a thread; one that takes the place of ours is told.

    `public_key` is what was entered for `user`. An API that does not answer says nothing: the next look is soon,
    and an entry counts for long.
    """

    def __init__(
        self,
        project: str,
        holding: Holding | None,
        user: str,
        public_key: str,
        *,
        look_s: float = LOOK_S,
        refresh_s: float = REFRESH_S,
    ) -> None:
        self._tpu = CloudTpu(project, timing=_TIMING)
        self._holding, self._user, self._key = holding, user, public_key
        self._look_s, self._refresh_s = look_s, refresh_s
        self._over = threading.Event()
        self._reason = ""
        self._thread: threading.Thread | None = None

    def reason(self) -> str:
        """Returns who took a TPU in our place; empty: nobody so far."""
        return self._reason

    def check(self) -> None:
        """Raises Ousted, naming who took a TPU in our place."""
        if self._reason:
            raise Ousted(self._reason)

    def __enter__(self) -> Stay:
        if self._entries():
            self._thread = threading.Thread(target=self._keep_looking, name="stay on TPUs", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()  # what it writes must not come after what a release takes away

    def _entries(self) -> Sequence[ResourceRef]:
        return [ref for ref in self._holding.lease.resources if ref.kind == ENTRY] if self._holding else []

    def _keep_looking(self) -> None:
        assert self._holding is not None
        while not self._reason:
            with contextlib.suppress(InfrastructureError):
                self._reason = refresh(
                    self._tpu, self._holding, self._user, self._key, within_s=self._refresh_s
                )
            if self._over.wait(self._look_s):
                return
