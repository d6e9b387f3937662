"""Seals and opens the segments of one object: AES-256-GCM, bound to the object, their place and their being last."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import google_crc32c
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runtime.gcs_proxy.format import NONCE_BYTES, SEAL_BYTES, TRAILER, VERSION, Layout, Malformed

_PLACE = struct.Struct(">QB")


class Tampered(Malformed):
    """A segment is not the one that was sealed for its place."""


class _Segments:
    def __init__(self, data_key: bytes, object_id: bytes, layout: Layout) -> None:
        self.layout = layout
        self._cipher = AESGCM(data_key)
        self._common = bytes([VERSION]) + object_id

    def _associated(self, index: int, final: bool) -> bytes:
        return self._common + _PLACE.pack(index, final)


class Sealer(_Segments):
    """Seals a plaintext from its beginning on. `plain`, `crc32c` and `index` are of what was sealed so far."""

    def __init__(self, data_key: bytes, object_id: bytes, layout: Layout) -> None:
        super().__init__(data_key, object_id, layout)
        self.plain = self.crc32c = self.index = 0
        self.sealed_crc32c = 0
        """Of the segments: what the store is to say of the object."""

    def whole(self, plain: memoryview, out: memoryview) -> int:
        """Seals whole segments of plaintext, any number of them, into `out`; returns how many bytes they take there.

        They are never the last ones: behind each plaintext comes its trailer.
        """
        capacity, size = self.layout.capacity, self.layout.segment_bytes
        assert len(plain) % capacity == 0
        filled = 0
        for begin in range(0, len(plain), capacity):
            # The checksum takes bytes only; what was just copied is still in the core's cache when it is sealed.
            piece = bytes(plain[begin : begin + capacity])
            self._count(piece)
            self._seal(piece, out[filled : filled + size], final=False)
            filled += size
        return filled

    def last(self, plain: bytes) -> bytes:
        """Seals the rest of the plaintext, less than a whole segment, and the trailer: one or two segments."""
        assert len(plain) < self.layout.capacity
        self._count(plain)
        stream = plain + TRAILER.pack(self.crc32c, self.plain)
        capacity = self.layout.capacity
        pieces = [stream[begin : begin + capacity] for begin in range(0, len(stream), capacity)]
        sealed = bytearray(len(stream) + len(pieces) * SEAL_BYTES)
        out = memoryview(sealed)
        for number, piece in enumerate(pieces):
            begin = number * self.layout.segment_bytes
            self._seal(piece, out[begin : begin + len(piece) + SEAL_BYTES], final=number == len(pieces) - 1)
        return bytes(sealed)

    def rewind(self, index: int, crc32c: int, sealed_crc32c: int) -> None:
        """Goes back to before whole segment `index`, when the CRC32Cs were these: a store kept less than was sent."""
        self.index, self.plain = index, index * self.layout.capacity
        self.crc32c, self.sealed_crc32c = crc32c, sealed_crc32c

    def _count(self, piece: bytes) -> None:
        self.crc32c = google_crc32c.extend(self.crc32c, piece)
        self.plain += len(piece)

    def _seal(self, piece: bytes, out: memoryview, *, final: bool) -> None:
        # A nonce is never made twice for other bytes: it is random, for a segment may be sealed again after a cut.
        nonce = os.urandom(NONCE_BYTES)
        out[:NONCE_BYTES] = nonce
        self._cipher.encrypt_into(nonce, piece, self._associated(self.index, final), out[NONCE_BYTES:])
        self.sealed_crc32c = google_crc32c.extend(self.sealed_crc32c, bytes(out))
        self.index += 1


class Opener(_Segments):
    """Opens segments of an object whose plaintext has `plain` bytes, in any order."""

    def __init__(self, data_key: bytes, object_id: bytes, layout: Layout, plain: int) -> None:
        super().__init__(data_key, object_id, layout)
        self.plain, self.count = plain, layout.count(plain)

    def open(self, index: int, sealed: bytes | bytearray | memoryview) -> bytes:
        """Returns what of plaintext and trailer is in a segment. Raises Tampered when it is not the right one."""
        if len(sealed) <= SEAL_BYTES:
            raise Tampered(f"segment {index} is cut short")
        view = memoryview(sealed)
        associated = self._associated(index, index == self.count - 1)
        try:
            return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], associated)
        except InvalidTag:
            raise Tampered(
                f"segment {index} is not what was written there: it was changed or exchanged"
            ) from None

    def plain_part(self, index: int, opened: bytes) -> bytes:
        """Returns what of an opened segment is plaintext, not trailer."""
        return opened[: max(0, self.plain - index * self.layout.capacity)]


class WholeCheck:
    """Sees all that is opened of an object, in order, and tells at the end whether it is what was sealed."""

    def __init__(self, opener: Opener) -> None:
        self._opener, self._crc32c, self._tail = opener, 0, b""

    def take(self, index: int, opened: bytes) -> bytes:
        """Returns the plaintext of the next segment. Raises Tampered where the last one's trailer tells of another."""
        part = self._opener.plain_part(index, opened)
        self._crc32c = google_crc32c.extend(self._crc32c, part)
        self._tail += opened[len(part) :]
        wanted = TRAILER.pack(self._crc32c, self._opener.plain)
        if index == self._opener.count - 1 and self._tail != wanted:
            raise Tampered("the plaintext is not the one whose checksum was sealed with it")
        return part


def opened(opener: Opener, segments: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the plaintext of a whole object from its segments. Raises Tampered; nothing is yielded unchecked."""
    check, index = WholeCheck(opener), -1
    for index, segment in enumerate(segments):
        yield check.take(index, opener.open(index, segment))
    if index != opener.count - 1:
        raise Tampered(f"there are {index + 1} segments of {opener.count}")
