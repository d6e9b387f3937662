"""A ledger in Cloud Storage: one object per lease, swapped by generation, for runs and reapers on any machine."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from runtime.contract.errors import InfrastructureError
from tasks.cloud.gs_objects import GsObjects
from tasks.leases.lease import Lease
from tasks.leases.ledger import (
    Listing,
    Unreadable,
    Unwritable,
    checked_lease_id,
    conflict,
    decode,
    encode,
)

PATIENCE_S = 8.0
"""How long a call to the service is tried again: a cancelled run has 30 s before Prefect kills it, in which a
renewal under way and the release may both have to fail before hardware is asked to go.
"""

_ID = "ledger.id"
_READERS = 16


class GsLedger:
    """See Ledger. A lease's generation is that of its object, so the service itself compares and swaps."""

    def __init__(self, bucket: str, prefix: str, *, patience_s: float = PATIENCE_S) -> None:
        self._objects = GsObjects(bucket, prefix, patience_s=patience_s)
        self.uri = self._objects.uri
        self._id: str | None = None

    @property
    def id(self) -> str:
        """See Ledger. Made on first use."""
        if self._id is None:
            made = secrets.token_hex(8)
            if self._objects.read(_ID) is None:
                self._swap(_ID, made, 0)
            stored = self._objects.read(_ID)
            if stored is None:
                raise InfrastructureError(f"{self._objects.where(_ID)} vanished right after it was made")
            self._id = stored.content.decode().strip()
        return self._id

    def exists(self) -> bool:
        """See Ledger."""
        return self._objects.exist()

    def read(self, lease_id: str) -> Lease | None:
        """See Ledger."""
        return self._read(f"{checked_lease_id(lease_id)}.json")

    def write(self, lease: Lease) -> Lease:
        """See Ledger. After Unwritable it may have been written all the same; a later read tells."""
        name = f"{checked_lease_id(lease.lease_id)}.json"
        generation = self._swap(name, encode(lease), lease.generation)
        if generation is None:
            raise conflict(lease, self._read(name))
        return replace(lease, generation=generation)

    def remove(self, lease: Lease) -> None:
        """See Ledger. Looks first: not every server that speaks Cloud Storage's API minds a delete's condition."""
        name = f"{checked_lease_id(lease.lease_id)}.json"
        stored = self._read(name)
        if stored is None:
            return
        try:
            same = stored.generation == lease.generation and self._objects.remove(name, lease.generation)
        except InfrastructureError as error:
            raise Unwritable(f"cannot take a lease out of the ledger: {error}") from error
        if not same:
            raise conflict(lease, self._read(name))

    def listing(self) -> Listing:
        """See Ledger. Raises InfrastructureError when the service does not answer: that is not "no leases"."""
        names = [name for name in self._objects.names() if name.endswith(".json") and "/" not in name]
        with ThreadPoolExecutor(_READERS) as pool:
            found = list(pool.map(self._read_or_told, names))
        return Listing(
            tuple(one for one in found if isinstance(one, Lease)),
            tuple(one for one in found if isinstance(one, Unreadable)),
        )

    def _read_or_told(self, name: str) -> Lease | Unreadable | None:
        try:
            return self._read(name)
        except Unreadable as error:
            return error

    def _read(self, name: str) -> Lease | None:
        stored = self._objects.read(name)
        if stored is None:
            return None
        return replace(decode(stored.content, self._objects.where(name)), generation=stored.generation)

    def _swap(self, name: str, content: str, generation: int) -> int | None:
        try:
            return self._objects.swap(name, content.encode(), generation)
        except InfrastructureError as error:
            raise Unwritable(
                f"cannot write the lease ledger: {error}; nothing is made that is not written down first: "
                "see to the bucket, or point SLICEBENCH_LEDGER elsewhere"
            ) from error
