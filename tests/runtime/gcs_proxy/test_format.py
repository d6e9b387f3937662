"""Sizes and ranges of encrypted objects: a bijection, and spans that hold what was asked for and no more."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from runtime.gcs_proxy.format import (
    SEGMENT_BYTES,
    ByteRange,
    Layout,
    Malformed,
    parse_range,
)

C = SEGMENT_BYTES - 28
SIZES = st.one_of(st.integers(0, 4 * C), st.integers(0, 5 << 40))
SEGMENTS = st.sampled_from([1 << power for power in range(12, 19)])


def stored(layout: Layout, index: int, plain: int) -> int:
    """Returns how many bytes segment `index` of an object of `plain` bytes has in the store."""
    opened = min(layout.capacity, plain + 12 - index * layout.capacity)
    return opened + 28


@given(SIZES, SEGMENTS)
@example(0, SEGMENT_BYTES)
@example(C - 12, SEGMENT_BYTES)
@example(C - 11, SEGMENT_BYTES)
@example(C, SEGMENT_BYTES)
def test_a_size_in_the_store_tells_the_size_of_the_plaintext(plain: int, segment: int) -> None:
    layout = Layout(segment)
    sealed = layout.sealed_size(plain)
    assert layout.plain_size(sealed) == plain
    last = range(max(0, layout.count(plain) - 3), layout.count(plain))
    assert sum(stored(layout, i, plain) for i in last) == sealed - last.start * segment
    assert sealed == plain + 12 + 28 * layout.count(plain)


@given(st.integers(-5, 300_000), SEGMENTS)
def test_every_size_is_one_that_an_object_has_or_is_refused(sealed: int, segment: int) -> None:
    layout = Layout(segment)
    try:
        plain = layout.plain_size(sealed)
    except Malformed:
        return
    assert plain >= 0
    assert layout.sealed_size(plain) == sealed


@pytest.mark.parametrize(
    "sealed", [-1, 0, 1, 28, 39, SEGMENT_BYTES + 1, SEGMENT_BYTES + 28, 3 * SEGMENT_BYTES + 7]
)
def test_sizes_that_no_object_has_are_refused(sealed: int) -> None:
    with pytest.raises(Malformed, match=f"{sealed} bytes"):
        Layout().plain_size(sealed)


@pytest.mark.parametrize(
    "plain, sealed",
    [(0, 40), (1, 41), (C - 12, SEGMENT_BYTES), (C - 11, SEGMENT_BYTES + 29), (C, SEGMENT_BYTES + 40)],
)
def test_sizes_around_a_whole_segment(plain: int, sealed: int) -> None:
    assert Layout().sealed_size(plain) == sealed


@given(SIZES, st.data(), SEGMENTS)
def test_a_span_holds_the_range_and_nothing_that_is_not_needed(
    plain: int, data: st.DataObject, segment: int
) -> None:
    assume(plain > 0)
    layout = Layout(segment)
    first = data.draw(st.integers(0, plain - 1))
    last = data.draw(st.integers(first, plain - 1))
    span = layout.span(first, last, plain)
    assert span.begin == span.first * segment
    assert span.first * layout.capacity <= first < (span.first + 1) * layout.capacity
    assert span.last * layout.capacity <= last < (span.last + 1) * layout.capacity
    assert span.end - span.last * segment + 1 == stored(layout, span.last, plain)
    assert span.end < layout.sealed_size(plain)


@pytest.mark.parametrize("size", [0, 1000, 4095, 65535, 65537, 1 << 19, -4096])
def test_segments_of_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(Malformed):
        Layout(size)


@pytest.mark.parametrize(
    "text, found",
    [
        ("bytes=0-0", ByteRange(0, 0)),
        ("bytes=5-", ByteRange(5)),
        ("bytes=-7", ByteRange(suffix=7)),
        ("Bytes=1-2", ByteRange(1, 2)),
        (" bytes=1-2 ", ByteRange(1, 2)),
        ("bytes=2-1", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("items=0-1", None),
        ("bytes=a-b", None),
        ("bytes=\uff11-2", None),
        ("", None),
        ("bytes=99999999999999999999-", ByteRange(10**18)),
        ("bytes=5-18446744073709551615", ByteRange(5, 10**18)),
    ],
)
def test_ranges_are_read_as_http_has_them(text: str, found: ByteRange | None) -> None:
    assert parse_range(text) == found


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_a_range_within_a_size_is_what_slicing_gives(size: int, first: int, length: int, suffix: int) -> None:
    data = bytes(range(size))

    def taken(wanted: ByteRange) -> bytes:
        found = wanted.within(size)
        return data[found[0] : found[1] + 1] if found else b""

    assert taken(ByteRange(first, first + length)) == data[first : first + length + 1]
    assert taken(ByteRange(first)) == data[first:]
    assert taken(ByteRange(suffix=suffix)) == (data[-suffix:] if suffix else b"")
