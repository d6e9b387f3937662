"""What all requests of a process share: keys and their map, connections to the store, buffers, keys used lately."""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from runtime.contract.keymap import KeyMap, KeyRef
from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.envelope import Envelope
from runtime.gcs_proxy.format import Malformed, number
from runtime.gcs_proxy.keys import KeyRing
from runtime.gcs_proxy.kms import KeyDenied, KeyUnavailable
from runtime.gcs_proxy.refusal import Refused, corrupt, denied, unavailable
from runtime.gcs_proxy.resources import Resource, custom
from runtime.gcs_proxy.session_store import Sessions
from runtime.gcs_proxy.upstream import Pool

_REMEMBERED = 4096
_REMEMBERED_S = 600.0
"""A key that was revoked opens what was opened lately for no longer than this."""


@dataclass(frozen=True)
class Known:
    """What is known of one generation of an encrypted object."""

    generation: str
    envelope: Envelope
    data_key: bytes
    sealed_size: int
    encoding: str
    """Of its content, as the client said."""
    learnt: float
    """When, by the clock of this process."""

    @property
    def plain_size(self) -> int:
        """The size of its plaintext."""
        return self.envelope.layout.plain_size(self.sealed_size)


class Gateway:
    """See above. Threads share it."""

    def __init__(
        self,
        key_map: KeyMap,
        ring: KeyRing,
        pool: Pool,
        budget: Budget,
        clock: Callable[[], float] = time.monotonic,
        sessions: Sessions | None = None,
    ) -> None:
        self.key_map, self.ring, self.pool, self.budget, self._clock = key_map, ring, pool, budget, clock
        self._lock = threading.Lock()
        self.always_md5 = False
        """Whether uploads are answered with the MD5 of the plaintext though the client did not tell it."""
        self.sessions = sessions or Sessions()
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._bad: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def try_key(self, key: KeyRef) -> None:
        """Wraps and unwraps a data key of no object. Raises Refused where that does not work."""
        try:
            data_key, sealed_for = self.ring.new(key, "", "")
            if self.ring.data_key(sealed_for, "", "") != data_key:
                raise KeyDenied(f"{key.uri} does not give back what it wrapped")
        except (KeyDenied, KeyUnavailable) as error:
            raise _refusal(error) from error

    def toward(self, pool: Pool) -> Gateway:
        """Returns one that shares all with this, and asks elsewhere."""
        other = copy.copy(self)
        other.pool = pool
        return other

    def new_key(self, key: KeyRef, bucket: str, name: str) -> tuple[bytes, Envelope]:
        """Returns data key and envelope of a new object. Raises Refused."""
        try:
            return self.ring.new(key, bucket, name)
        except (KeyDenied, KeyUnavailable) as error:
            raise _refusal(error) from error

    def rewrapped(self, known: Known, key: KeyRef, bucket: str, name: str) -> Envelope:
        """Returns the envelope of a copy. Raises Refused."""
        try:
            return self.ring.rewrap(known.data_key, known.envelope, key, bucket, name)
        except (KeyDenied, KeyUnavailable) as error:
            raise _refusal(error) from error

    def known(self, bucket: str, name: str) -> Known | None:
        """Returns what was learnt last of an object, which may be of an earlier generation than there is now."""
        with self._lock:
            found = self._known.get((bucket, name))
            if not found or self._clock() - found.learnt > _REMEMBERED_S:
                return None
            self._known.move_to_end((bucket, name))
            return found

    def learn(self, resource: Resource, bucket: str, name: str) -> Known:
        """Returns what the store's word on an object tells of it, its data key unwrapped. Raises Refused."""
        place = f"gs://{bucket}/{name}"
        metadata = custom(resource)
        if not envelope.is_encrypted(metadata):
            raise corrupt(f"{place} is not encrypted, and the key map says that it has to be")
        try:
            found = envelope.read(metadata)
            sealed = number(resource.get("size")) or 0
            found.layout.plain_size(sealed)
        except Malformed as error:
            raise corrupt(f"{place}: {error}") from error
        generation = str(resource.get("generation", ""))
        before = self.known(bucket, name)
        if before and before.generation == generation and before.envelope == found:
            data_key = before.data_key
        else:
            try:
                data_key = self.ring.data_key(found, bucket, name, self.key_map.key(bucket, name))
            except (KeyDenied, KeyUnavailable) as error:
                raise _refusal(error) from error
            before = None
        learnt = before.learnt if before else self._clock()
        known = Known(generation, found, data_key, sealed, str(resource.get("contentEncoding", "")), learnt)
        with self._lock:
            self._known[bucket, name] = known
            self._known.move_to_end((bucket, name))
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    def note_bad(self, bucket: str, name: str, generation: str, segment: int | None) -> None:
        """Notes a segment that was found not right when an answer had begun; None: it is right now."""
        place = (bucket, name, generation)
        with self._lock:
            self._bad.pop(place, None)
            if segment is not None:
                self._bad[place] = segment
            while len(self._bad) > _REMEMBERED:
                self._bad.popitem(last=False)

    def bad(self, bucket: str, name: str, generation: str) -> int | None:
        """Returns the segment that was noted so last, of this generation of an object."""
        with self._lock:
            return self._bad.get((bucket, name, generation))


def _refusal(error: Exception) -> Refused:
    return denied(str(error)) if isinstance(error, KeyDenied) else unavailable(str(error))
