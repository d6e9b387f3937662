"""Where the bytes of an encrypted object lie: sizes, segments and ranges, as pure arithmetic (docs/gcs_proxy.md)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

VERSION = 1
SEGMENT_BYTES = 65536
"""What we write. It divides 256 KiB: whatever a store keeps of a resumable upload ends on a whole segment."""
LARGEST_SEGMENT_BYTES = 1 << 18
SMALLEST_SEGMENT_BYTES = 1 << 12
NONCE_BYTES, TAG_BYTES = 12, 16
SEAL_BYTES = NONCE_BYTES + TAG_BYTES
_NUMBER = re.compile("[0-9]{1,19}")
TRAILER = struct.Struct(">IQ")
"""What stands behind the plaintext, sealed with it: its CRC32C and its length."""


class Malformed(Exception):
    """Bytes or metadata that no proxy of this format wrote, or that were changed since."""


def number(told: object) -> int | None:
    """Returns a size or a generation, as headers and JSON have them; None for what is none, or larger than any is."""
    text = str(told) if isinstance(told, (str, int)) else ""
    return int(text) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True)
class Span:
    """Segments `first` to `last` of an object, and where their bytes lie in it; ends are inclusive."""

    first: int
    last: int
    begin: int
    end: int


@dataclass(frozen=True)
class Layout:
    """How an object whose whole segments have `segment_bytes` lies in the store."""

    segment_bytes: int = SEGMENT_BYTES

    def __post_init__(self) -> None:
        size = self.segment_bytes
        if not SMALLEST_SEGMENT_BYTES <= size <= LARGEST_SEGMENT_BYTES or size & (size - 1):
            raise Malformed(f"segments cannot have {size} bytes")

    @property
    def capacity(self) -> int:
        """How many bytes of the plaintext a whole segment holds."""
        return self.segment_bytes - SEAL_BYTES

    def count(self, plain: int) -> int:
        """Returns how many segments `plain` bytes and their trailer take."""
        return -(-(plain + TRAILER.size) // self.capacity)

    def sealed_size(self, plain: int) -> int:
        """Returns the size in the store of an object of `plain` bytes."""
        return plain + TRAILER.size + self.count(plain) * SEAL_BYTES

    def plain_size(self, sealed: int) -> int:
        """Returns the size of the plaintext of an object of `sealed` bytes.

        Raises Malformed when none has this size.
        """
        segments = -(-sealed // self.segment_bytes)
        plain = sealed - segments * SEAL_BYTES - TRAILER.size
        # A last segment of nothing but nonce and tag, or of less, is none.
        if plain < 0 or self.sealed_size(plain) != sealed:
            raise Malformed(f"no object of this format has {sealed} bytes")
        return plain

    def final(self, last: int) -> int:
        """Returns the last segment that is needed to know that byte `last` is one of the plaintext.

        The end of a segment that is not an object's last one may be its trailer's beginning: which it is, the segment
        behind it tells. The object's size does not: whoever adds bytes to an object changes it.
        """
        segment, place = divmod(last, self.capacity)
        return segment + (place >= self.capacity - TRAILER.size)

    def span(self, first: int, last: int, plain: int) -> Span:
        """Returns the segments that hold bytes `first` to `last` (inclusive) of a plaintext of `plain` bytes."""
        begin, end = first // self.capacity, last // self.capacity
        final_byte = min((end + 1) * self.segment_bytes, self.sealed_size(plain)) - 1
        return Span(begin, end, begin * self.segment_bytes, final_byte)


@dataclass(frozen=True)
class ByteRange:
    """One range as a client asks for it: `first`-`last`, `first`- (last is None), or the last `suffix` bytes."""

    first: int | None = None
    last: int | None = None
    suffix: int | None = None

    def within(self, size: int) -> tuple[int, int] | None:
        """Returns the first and last byte of it in an object of `size` bytes; None where it has none of them."""
        if self.suffix is not None:
            first, last = max(0, size - self.suffix), size - 1
        else:
            first = self.first or 0
            last = size - 1 if self.last is None else min(self.last, size - 1)
        return (first, last) if first <= last else None


_RANGE = re.compile(r"bytes=(?:([0-9]{1,40})-([0-9]{0,40})|-([0-9]{1,40}))", re.IGNORECASE)
_FAR = 10**18
"""Behind the end of any object, and a number that any store reads: some programs say 2**64-1 for "to the end"."""


def parse_range(text: str) -> ByteRange | None:
    """Returns the range of a Range header; None for what is no single range of bytes: HTTP has it ignored then."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        return ByteRange(suffix=min(int(suffix), _FAR))
    if last and int(last) < int(first):
        return None
    return ByteRange(min(int(first), _FAR), min(int(last), _FAR) if last else None)


def sealed_range(wanted: ByteRange | None, layout: Layout, plain: int | None) -> str:
    """Returns the range of the segments that hold what is wanted of `plain` bytes; nothing for the whole object."""
    if wanted is None:
        return ""
    if wanted.suffix is not None:
        within = wanted.within(plain) if plain is not None else None
        if within is None:
            return ""
        first, last = within[0], None
    else:
        first, last = wanted.first or 0, wanted.last
    begin = first // layout.capacity * layout.segment_bytes
    end = "" if last is None else (layout.final(last) + 1) * layout.segment_bytes - 1
    return f"bytes={begin}-{end}"
