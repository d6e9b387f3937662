"""Whatever is asked of an object, happens to it or to its upload: no wrong byte, and no crash."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cloud.store.api import Asked, Reply
from tests.runtime.gcs_proxy.fuzzing import CONTENT, MEDIA, SIZES, UPLOAD, C, S, few
from tests.runtime.gcs_proxy.fuzzing import proxy as proxy
from tests.runtime.gcs_proxy.within import Within

BLOCK = 4 * C
NUMBERS = st.one_of(
    st.integers(0, 6 * C),
    st.sampled_from([max(0, k * C + d) for k in range(4) for d in (-13, -12, -1, 0, 1)]),
    st.sampled_from([10**18, 2**64 - 1, 10**25]),
)
RANGES = st.one_of(
    st.tuples(NUMBERS, NUMBERS).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    NUMBERS.map(lambda n: f"{n}-"),
    NUMBERS.map(lambda n: f"-{n}"),
)


def sliced(content: bytes, wanted: str) -> tuple[int, int]:
    """Returns first byte and end of a range, as HTTP has it."""
    first, _, last = wanted.partition("-")
    if not first:
        return max(0, len(content) - int(last)), len(content)
    return int(first), min(int(last) + 1 if last else len(content), len(content))


@given(st.sampled_from(SIZES), RANGES)
@few(60)
def test_any_range_of_any_size_is_what_slicing_gives(proxy: Within, size: int, wanted: str) -> None:
    content = CONTENT[:size]
    first, end = sliced(content, wanted)
    status, headers, came = proxy.ask("GET", MEDIA.format(f"size-{size}"), Range=f"bytes={wanted}")
    if first >= end:
        assert (status, headers["content-range"]) == (416, f"bytes */{size}")
        return
    assert (status, came) == (206, content[first:end])
    assert headers["content-range"] == f"bytes {first}-{end - 1}/{size}"


@pytest.mark.parametrize("times", [1, 2, 3, 7])
@pytest.mark.parametrize("wanted", ["", "5-9", "-7", "100-"])
def test_what_is_written_anew_while_it_is_read_is_there(proxy: Within, wanted: str, times: int) -> None:
    """It is one version or the other, and never missing: between two questions, one version takes the other's place."""
    contents, objects = (CONTENT[:300_000], CONTENT[5:200_005]), proxy.world.buckets["bkt"]
    versions, count = [], 0

    def says(asked: Asked, reply: Reply) -> Reply:
        nonlocal count
        count += 1
        if count <= times:
            objects["anew"] = versions[count % 2]
        return reply

    with proxy.as_before():
        for content in contents:
            assert proxy.ask("POST", UPLOAD.format("media", "anew"), content)[0] == 200
            versions.append(replace(objects["anew"]))
        proxy.luck.says = says
        for target in (MEDIA.format("anew"), "/bkt/anew"):
            for is_known in (False, True):
                count = 0
                objects["anew"] = versions[0]
                if not is_known:
                    proxy.gate._known.clear()
                status, _, came = proxy.ask("GET", target, **({"Range": f"bytes={wanted}"} if wanted else {}))
                slices = [slice(*sliced(content, wanted or "0-")) for content in contents]
                assert status == (206 if wanted else 200), came
                assert came in [content[part] for content, part in zip(contents, slices, strict=True)]
        count = 0
        objects["anew"] = versions[0]
        rewrite = "/storage/v1/b/bkt/o/anew/rewriteTo/b/bkt/o/copied"
        assert proxy.ask("POST", rewrite)[0] == 200
        assert proxy.ask("GET", MEDIA.format("copied"))[2] in contents
        count = 0
        objects["anew"] = versions[0]
        pinned = f"&generation={versions[0].generation}"
        assert proxy.ask("GET", MEDIA.format("anew") + pinned)[0] in (200, 404), "what was asked for is gone"


SPOIL = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 1 << 40), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.integers(0, 1 << 40), st.just(0)),
    st.tuples(st.just("cut at a segment"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("more"), st.integers(1, 70_000), st.just(0)),
    st.tuples(st.just("exchange"), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("other"), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("metadata"), st.integers(0, 4), st.integers(0, 8)),
)


def spoilt(proxy: Within, size: int, how: tuple[str, int, int]) -> Any:
    kind, where, what = how
    stored = proxy.world.buckets["bkt"][f"size-{size}"]
    sealed, fields = bytearray(stored.content), stored.fields
    other = proxy.world.buckets["bkt"][f"size-{SIZES[(where if kind == 'other' else what) % len(SIZES)]}"]
    if kind == "flip":
        sealed[where % len(sealed)] ^= 1 << what
    elif kind == "cut":
        del sealed[where % len(sealed) :]
    elif kind == "cut at a segment":
        del sealed[where * S :]
    elif kind == "more":
        sealed += bytes(where)
    elif kind == "exchange":
        pieces = [sealed[at : at + S] for at in range(0, len(sealed), S)]
        one, two = where % len(pieces), what % len(pieces)
        pieces[one], pieces[two] = pieces[two], pieces[one]
        sealed = bytearray().join(pieces)
    elif kind == "other":
        sealed = bytearray(other.content)
    else:
        name = sorted(fields["metadata"])[where]
        fields = {**fields, "metadata": {**fields["metadata"], name: other.fields["metadata"][name]}}
    return replace(stored, content=bytes(sealed), fields=fields)


@given(st.sampled_from(SIZES), SPOIL, st.one_of(st.none(), RANGES), st.booleans())
@few(120)
def test_of_a_spoilt_object_no_wrong_byte_is_answered(
    proxy: Within, size: int, how: tuple[str, int, int], wanted: str | None, is_known: bool
) -> None:
    content, objects, name = CONTENT[:size], proxy.world.buckets["bkt"], f"size-{size}"
    first, end = sliced(content, wanted) if wanted else (0, size)
    with proxy.as_before():
        if is_known:
            proxy.ask("GET", MEDIA.format(name))
        objects[name] = spoilt(proxy, size, how)
        headers = {"Range": f"bytes={wanted}"} if wanted else {}
        status, told, came = proxy.ask("GET", MEDIA.format(name), **headers)
    if status in (200, 206):
        told_first = re.match(r"bytes ([0-9]+)-", told.get("content-range", "bytes 0-"))
        assert told_first and came == content[int(told_first[1]) : end][: len(came)]
        assert len(came) <= int(told["content-length"])
        # What has no right end is never taken for a whole object.
        has_end = how[0] not in ("cut", "cut at a segment", "more")
        assert wanted or has_end or came == content or len(came) < int(told["content-length"])
    else:
        assert status in (403, 416, 422), (status, came)
        assert status != 416 or first >= end or wanted


STEPS = st.one_of(
    st.tuples(st.just("chunk"), st.integers(0, 3 * BLOCK), st.integers(0, 2000)),
    st.tuples(st.just("whole"), st.just(0), st.just(0)),
    st.tuples(st.just("status"), st.just(0), st.just(0)),
    st.tuples(st.just("client ends"), st.integers(1, 3 * BLOCK), st.integers(0, 3 * BLOCK)),
    st.tuples(st.just("take"), st.integers(0, 5 * S), st.just(0)),
    st.tuples(st.just("lose"), st.just(0), st.just(0)),
)


@given(
    st.sampled_from([0, 5, C, BLOCK, BLOCK + 1, 3 * BLOCK - 12, len(CONTENT)]), st.lists(STEPS, max_size=12)
)
@example(BLOCK, [("take", 4 * S, 0), ("whole", 0, 0)])
@few(80)
def test_an_upload_is_what_was_sent_whatever_happens_on_the_way(
    proxy: Within, size: int, steps: list[tuple[str, int, int]]
) -> None:
    """Chunks of any size, some bytes again, cuts of store and client, lost answers: it ends, and is what was sent."""
    content, luck = CONTENT[:size], proxy.luck
    luck.takes, luck.loses = [], []
    begun = proxy.ask("POST", UPLOAD.format("resumable", "upload"), b"{}")
    place = begun[1]["location"].removeprefix("http://x")
    kept, done = 0, False

    def heard(status: int, headers: dict[str, str], told: bytes) -> None:
        nonlocal kept, done
        if status == 308:
            now = int(headers.get("range", "bytes=0--1").removeprefix("bytes=0-")) + 1
            assert 0 <= now <= size
            kept = now
        elif status == 200:
            assert json.loads(told)["size"] == str(size)
            done = True
        else:
            assert status == 503, told

    def put(first: int, last: int, *, total: bool) -> None:
        span = (
            f"bytes {first}-{last - 1}/{size if total else '*'}"
            if last > first
            else f"bytes */{size if total else '*'}"
        )
        heard(*proxy.ask("PUT", place, content[first:last], Content_Range=span))

    for what, one, two in steps:
        if what == "take":
            luck.takes.append(one)
        elif what == "lose":
            luck.loses.append(True)
        elif what == "status":
            put(0, 0, total=False)
        elif what == "client ends":
            last = min(size, kept + one)
            head = f"PUT {place} HTTP/1.1\r\nHost: x\r\nContent-Length: {last - kept}\r\n"
            told = f"Content-Range: bytes {kept}-{last - 1}/{size}\r\n\r\n"
            if last > kept:
                proxy.say(
                    (head + told).encode() + content[kept : min(last, kept + two)][: max(0, last - kept - 1)]
                )
        else:
            first = max(0, kept - two)
            put(first, size if what == "whole" else min(size, kept + one), total=True)
    luck.takes, luck.loses = [], []
    for _ in range(4):
        if not done:
            put(0, 0, total=False)
        if not done:
            put(kept, size, total=True)
    assert done
    status, _, came = proxy.ask("GET", MEDIA.format("upload"))
    assert (status, came == content) == (200, True)
