"""A ledger at a glance: for those who look through all of it just to know where to look, once for all of them."""

from __future__ import annotations

import threading
import time

from tasks.leases.lease import Lease
from tasks.leases.ledger import Ledger, Listing

_FRESH_S = 5.0


class Glance:
    """See Ledger. Its listing may be some seconds old; all else is the ledger's own. Safe in several threads."""

    def __init__(self, ledger: Ledger) -> None:
        self.uri = ledger.uri
        self._ledger = ledger
        self._lock = threading.Lock()
        self._seen: tuple[float, Listing] | None = None

    @property
    def id(self) -> str:
        """See Ledger."""
        return self._ledger.id

    def exists(self) -> bool:
        """See Ledger."""
        return self._ledger.exists()

    def read(self, lease_id: str) -> Lease | None:
        """See Ledger."""
        return self._ledger.read(lease_id)

    def write(self, lease: Lease) -> Lease:
        """See Ledger."""
        return self._ledger.write(lease)

    def remove(self, lease: Lease) -> None:
        """See Ledger."""
        self._ledger.remove(lease)

    def listing(self) -> Listing:
        """See Ledger."""
        with self._lock:
            if self._seen is None or time.monotonic() - self._seen[0] > _FRESH_S:
                listing = self._ledger.listing()
                self._seen = time.monotonic(), listing
            return self._seen[1]
