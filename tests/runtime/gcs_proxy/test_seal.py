"""Segments: what was sealed is opened, by us and by the program of docs/gcs_proxy.md; anything else is refused."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.envelope import Envelope
from runtime.gcs_proxy.format import Layout, Malformed
from runtime.gcs_proxy.seal import Opener, Sealer, Tampered, opened

PAGE = Path(__file__).parents[3] / "docs" / "gcs_proxy.md"
KEY, ID = bytes(range(32)), bytes(range(16))
SMALL = Layout(4096)
SIZES = [0, 1, 4055, 4056, 4057, 4068, 4069, 2 * 4068 - 12, 2 * 4068, 3 * 4068 + 17]


def sealed(plain: bytes, layout: Layout = SMALL, object_id: bytes = ID) -> bytes:
    sealer = Sealer(KEY, object_id, layout)
    whole = len(plain) // layout.capacity * layout.capacity
    out = bytearray(whole // layout.capacity * layout.segment_bytes)
    assert sealer.whole(memoryview(plain)[:whole], memoryview(out)) == len(out)
    return bytes(out) + sealer.last(plain[whole:])


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


def open_all(data: bytes, layout: Layout = SMALL, object_id: bytes = ID) -> bytes:
    opener = Opener(KEY, object_id, layout, layout.plain_size(len(data)))
    return b"".join(opened(opener, iter(pieces(data, layout.segment_bytes))))


def by_the_page(name: str) -> Any:
    """Returns a function that docs/gcs_proxy.md shows."""
    space: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, space)
    return space[name]


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_is_opened_by_us_and_by_the_page(size: int) -> None:
    plain = random.Random(size).randbytes(size)
    data = sealed(plain)
    assert len(data) == SMALL.sealed_size(size)
    assert open_all(data) == plain
    assert by_the_page("decrypt")(data, KEY, ID, 4096) == plain


def test_the_segments_that_we_write_are_opened_too() -> None:
    plain = random.Random(1).randbytes(200_000)
    assert by_the_page("decrypt")(sealed(plain, Layout()), KEY, ID, 65536) == plain


@given(st.sampled_from(SIZES), st.data())
@settings(max_examples=60)
def test_a_changed_byte_is_found_wherever_it_is(size: int, data: st.DataObject) -> None:
    stored = bytearray(sealed(bytes(size)))
    place = data.draw(st.integers(0, len(stored) - 1))
    stored[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(Tampered, match=f"segment {place // 4096}"):
        open_all(bytes(stored))


@given(st.sampled_from(SIZES), st.data())
@settings(max_examples=60)
def test_a_cut_is_found_wherever_it_is(size: int, data: st.DataObject) -> None:
    stored = sealed(bytes(size))
    with pytest.raises(Malformed):
        open_all(stored[: data.draw(st.integers(0, len(stored) - 1))])


def test_a_cut_between_segments_is_found() -> None:
    stored = sealed(bytes(3 * SMALL.capacity + 17))
    for whole in (1, 2, 3):
        with pytest.raises(Tampered):
            open_all(stored[: whole * 4096])


@given(st.binary(min_size=1, max_size=5000))
@settings(max_examples=40)
def test_bytes_behind_an_object_are_found(more: bytes) -> None:
    with pytest.raises(Malformed):
        open_all(sealed(bytes(5000)) + more)


def test_segments_that_were_exchanged_or_left_out_are_found() -> None:
    first, second, third, fourth = pieces(sealed(random.Random(2).randbytes(3 * SMALL.capacity + 17)), 4096)
    for spoilt in (
        [second, first, third, fourth],
        [first, first, third, fourth],
        [first, third, second, fourth],
    ):
        with pytest.raises(Tampered):
            open_all(b"".join(spoilt))
    with pytest.raises(Tampered):
        open_all(b"".join([first, second, fourth]))


def test_segments_of_another_object_are_found_even_under_the_same_key() -> None:
    other = sealed(bytes(5000), object_id=bytes(16))
    with pytest.raises(Tampered):
        open_all(sealed(bytes(5000))[:4096] + other[4096:])


@given(st.binary(max_size=9000))
@settings(max_examples=60)
def test_any_bytes_at_all_are_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        open_all(data)


def test_too_few_segments_are_found_though_each_is_right() -> None:
    segments = pieces(sealed(bytes(9000)), 4096)
    opener = Opener(KEY, ID, SMALL, 9000)
    with pytest.raises(Tampered, match="2 segments of 3"):
        list(opened(opener, iter(segments[:2])))


def test_a_trailer_that_tells_of_other_bytes_is_found() -> None:
    sealer = Sealer(KEY, ID, SMALL)
    sealer.crc32c = 5
    with pytest.raises(Tampered, match="checksum"):
        open_all(sealer.last(b"x" * 100))


def test_a_sealer_that_was_rewound_goes_on_as_if_nothing_had_been() -> None:
    plain = random.Random(3).randbytes(3 * SMALL.capacity + 50)
    sealer, out = Sealer(KEY, ID, SMALL), bytearray(3 * 4096)
    sealer.whole(memoryview(plain)[: SMALL.capacity], memoryview(out))
    crc32c, sealed = sealer.crc32c, sealer.sealed_crc32c
    sealer.whole(memoryview(plain)[SMALL.capacity : 3 * SMALL.capacity], memoryview(out)[4096:])
    kept, before = bytes(out[:4096]), bytes(out[4096:])
    sealer.rewind(1, crc32c, sealed)
    sealer.whole(memoryview(plain)[SMALL.capacity : 3 * SMALL.capacity], memoryview(out)[4096:])
    assert bytes(out[4096:]) != before, "the same nonces were used twice"
    whole = kept + bytes(out[4096:]) + sealer.last(plain[3 * SMALL.capacity :])
    assert open_all(whole) == plain
    assert sealer.sealed_crc32c == google_crc32c.value(whole)


WHOLE = Envelope(ID, "file:key.json", b"wrapped", SMALL).metadata()


def test_an_envelope_is_read_as_it_was_written_whatever_the_case_of_its_names() -> None:
    assert envelope.read({name.upper(): value for name, value in WHOLE.items()} | {"mine": "1"}) == Envelope(
        ID, "file:key.json", b"wrapped", SMALL
    )
    assert envelope.without_ours(WHOLE | {"mine": "1"}) == {"mine": "1"}
    assert envelope.is_encrypted(WHOLE) and not envelope.is_encrypted({"mine": "1"})


@pytest.mark.parametrize(
    "name, value",
    [
        ("version", "2"),
        ("version", ""),
        ("segment-bytes", "65537"),
        ("segment-bytes", "-4096"),
        ("segment-bytes", "4096 "),
        ("segment-bytes", "٤٠٩٦"),
        ("segment-bytes", "9" * 5000),
        ("object-id", "00"),
        ("object-id", "zz" * 16),
        ("wrapped-key", ""),
        ("wrapped-key", "!"),
        ("wrapped-key", "A" * 100_000),
        ("key", None),
        ("version", None),
    ],
)
def test_metadata_that_are_not_whole_are_refused(name: str, value: str | None) -> None:
    spoilt = {key: text for key, text in WHOLE.items() if key != envelope.PREFIX + name}
    if value is not None:
        spoilt[envelope.PREFIX + name] = value
    with pytest.raises(Malformed):
        envelope.read(spoilt)


@given(st.dictionaries(st.sampled_from(sorted(WHOLE)), st.text("019af=Zé -", max_size=40)))
@settings(max_examples=60)
def test_any_metadata_at_all_are_read_or_refused(metadata: dict[str, str]) -> None:
    try:
        envelope.read(metadata)
    except Malformed:
        return
