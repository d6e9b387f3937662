"""Seals and opens the segments of one object: AES-256-GCM, bound to the object, their place and their being last."""

from __future__ import annotations

import ctypes
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
        self._count(plain)
        for begin in range(0, len(plain), capacity):
            self._seal(plain[begin : begin + capacity], out[filled : filled + size], final=False)
            filled += size
        self.sealed_crc32c = _extended(self.sealed_crc32c, out[:filled])
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
        self.sealed_crc32c = _extended(self.sealed_crc32c, out)
        return bytes(sealed)

    def rewind(self, index: int, crc32c: int, sealed_crc32c: int) -> None:
        """Goes back to before whole segment `index`, when the CRC32Cs were these: a store kept less than was sent."""
        self.index, self.plain = index, index * self.layout.capacity
        self.crc32c, self.sealed_crc32c = crc32c, sealed_crc32c

    def _count(self, plain: bytes | memoryview) -> None:
        self.crc32c = _extended(self.crc32c, plain)
        self.plain += len(plain)

    def _seal(self, piece: bytes | memoryview, out: memoryview, *, final: bool) -> None:
        # A nonce is never made twice for other bytes: it is random, for a segment may be sealed again after a cut.
        nonce = os.urandom(NONCE_BYTES)
        out[:NONCE_BYTES] = nonce
        self._cipher.encrypt_into(nonce, piece, self._associated(self.index, final), out[NONCE_BYTES:])
        self.index += 1


class Opener(_Segments):
    """Opens segments of an object whose plaintext has `plain` bytes, in any order."""

    def __init__(self, data_key: bytes, object_id: bytes, layout: Layout, plain: int) -> None:
        super().__init__(data_key, object_id, layout)
        self.plain, self.count = plain, layout.count(plain)

    def open(self, index: int, sealed: memoryview, out: memoryview) -> memoryview:
        """Returns what of plaintext and trailer is in a segment: it is the beginning of `out` then.

        Raises Tampered when it is not the right segment; what is in `out` then is not to be used.
        """
        if len(sealed) <= SEAL_BYTES:
            raise Tampered(f"segment {index} is cut short")
        opened = out[: len(sealed) - SEAL_BYTES]
        associated = self._associated(index, index == self.count - 1)
        try:
            self._cipher.decrypt_into(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], associated, opened)
        except InvalidTag:
            raise Tampered(
                f"segment {index} is not what was written there: it was changed or exchanged"
            ) from None
        return opened


class WholeCheck:
    """Sees all that is opened of an object, in order, and tells at the end whether it is what was sealed."""

    def __init__(self, plain: int) -> None:
        self._plain = self._left = plain
        self._crc32c, self._tail = 0, b""

    def take(self, opened: memoryview) -> memoryview:
        """Returns what of the next bytes is plaintext. Raises Tampered where the trailer tells of another one."""
        part = opened[: self._left]
        self._left -= len(part)
        self._crc32c = _extended(self._crc32c, part)
        self._tail += opened[len(part) :]
        if len(self._tail) == TRAILER.size and self._tail != TRAILER.pack(self._crc32c, self._plain):
            raise Tampered("the plaintext is not the one whose checksum was sealed with it")
        return part


def _extended(crc32c: int, data: bytes | memoryview) -> int:
    """Returns the CRC32C of what was seen before and of more.

    google_crc32c takes no memoryviews: it is shown the same memory as an array of ctypes, for a copy takes as long.
    """
    if isinstance(data, memoryview) and not data.readonly:
        return int(google_crc32c.extend(crc32c, (ctypes.c_char * len(data)).from_buffer(data)))
    return int(google_crc32c.extend(crc32c, bytes(data)))


def opened(opener: Opener, segments: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the plaintext of a whole object from its segments. Raises Tampered; nothing is yielded unchecked."""
    check, index, out = WholeCheck(opener.plain), -1, memoryview(bytearray(opener.layout.segment_bytes))
    for index, segment in enumerate(segments):
        yield bytes(check.take(opener.open(index, memoryview(segment), out)))
    if index != opener.count - 1:
        raise Tampered(f"there are {index + 1} segments of {opener.count}")
