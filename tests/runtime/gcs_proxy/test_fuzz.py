"""Whatever a client, a store or chance comes up with: an answer that says so, no crash and no wrong byte.

FUZZ_TIMES=N tries N times as much; tests/system/test_proxy_large.py does.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from runtime.gcs_proxy.format import SEGMENT_BYTES
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.routes import object_path, route
from tests.cloud.store.api import Asked, Reply
from tests.runtime.gcs_proxy.within import Within, within

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))
S, C = SEGMENT_BYTES, SEGMENT_BYTES - 28
BLOCK = 4 * C
CONTENT = random.Random(21).randbytes(13 * C + 777)
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType={}&name={}"
MEDIA = "/storage/v1/b/bkt/o/{}?alt=media"


def few(count: int) -> settings:
    return settings(max_examples=count * TIMES)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Within]:
    with within(tmp_path_factory.mktemp("within")) as made:
        for size in SIZES:
            assert made.ask("POST", UPLOAD.format("media", f"size-{size}"), CONTENT[:size])[0] == 200
        yield made


SIZES = [0, 1, C - 12, C - 11, C, C + 1, 2 * C - 12, 3 * C, 5 * C + 1000]
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


def uploading(how: str, version: str = "1.1") -> bytes:
    return f"POST {UPLOAD.format(how, 'y')} HTTP/{version}".encode()


HEADS = st.sampled_from(
    [
        b"GET /storage/v1/b/bkt/o/size-1?alt=media HTTP/1.1",
        uploading("media"),
        uploading("multipart", "1.0"),
        uploading("resumable"),
        b"PUT /bkt/y HTTP/1.1",
        b"PATCH /storage/v1/b/bkt/o/size-0 HTTP/1.1",
        b"POST /batch/storage/v1 HTTP/1.1",
        b"CONNECT a:443 HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"GET http://x/storage/v1/b HTTP/1.1",
    ]
)
LINES = st.sampled_from(
    [
        b"Content-Length: 5",
        b"Content-Length: 7",
        b"content-length:5, 5",
        b"Content-Length: \xb2",
        b"Content-Length: 99999999999999999999",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding:\tchunked",
        b"Transfer-Encoding : chunked",
        b" folded",
        b"\x00: y",
        b"X: " + b"y" * 9_000,
        b"Host: y",
        b"Range: bytes=0-\xb2",
        b"Content-Type: multipart/related; boundary=b",
        b"Content-Type: multipart/mixed; boundary=b",
        b"Content-Type: application/grpc",
        b"Content-Encoding: gzip",
        b"Content-Range: bytes 0-4/*",
        b"Expect: 100-continue",
        b"Connection: close, host",
        b"Upgrade: h2c",
        b"X-Upload-Content-Length: \xb2",
        b"X-Upload-Content-Length: " + b"9" * 5000,
        b"X-Goog-Hash: crc32c=\xff",
        b"X-Http-Method-Override: GET",
    ]
)
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n"])
IN_BATCH = b"DELETE /storage/v1/b/bkt/o/z HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n\r\n--b--"
BODIES = st.sampled_from(
    [
        b"",
        b"12345",
        b"5\r\n12345\r\n0\r\n\r\n",
        b"5;a=b\r\n12345\r\n0\r\nX: y\r\n\r\n",
        b"fffffffffffffffff\r\n",
        b"-5\r\n",
        b"{}",
        b"--b\r\nContent-Type: application/http\r\n\r\n" + IN_BATCH,
        b"--b\r\n\r\n{}\r\n--b\r\n\r\n12\r\n--b--",
        b'{"metadata": {"a": 1}}',
        b'{"metadata": 7, "name": []}',
        b"[[[[" * 99,
    ]
)
MESSAGES = st.builds(
    lambda head, lines, ends, body: (
        b"".join(line + end for line, end in zip([head, *lines], ends, strict=False)) + b"\r\n" + body
    ),
    HEADS,
    st.lists(LINES, max_size=5).map(lambda lines: [b"Host: x", *lines]),
    st.lists(ENDS, min_size=9, max_size=9),
    st.one_of(BODIES, st.binary(max_size=40)),
)


@given(
    st.lists(st.one_of(MESSAGES, st.binary(max_size=60)), min_size=1, max_size=3),
    st.sampled_from([97, 65536]),
)
@example(
    [
        b"POST "
        + UPLOAD.format("resumable", "y").encode()
        + b" HTTP/1.1\r\nHost: x\r\nX-Upload-Content-Length: \xb2\r\n\r\n"
    ],
    7,
)
@few(150)
def test_whatever_a_client_says_is_answered_or_its_connection_ends(
    proxy: Within, said: list[bytes], pieces: int
) -> None:
    with proxy.as_before():
        came = proxy.say(b"".join(said), pieces)
    assert not came or came.startswith(b"HTTP/1.1 ") or came[3:4] == b"\x04"  # the settings of HTTP/2
    statuses = {int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) [ -~]*\r\n[A-Z]", came)}
    assert statuses <= {100, 200, 204, 308, 400, 403, 404, 405, 410, 412, 416, 422}, came


@given(
    st.lists(
        st.tuples(st.sampled_from(["length", "chunks", "one"]), st.binary(max_size=300), st.booleans()),
        max_size=5,
    ),
    st.sampled_from([1, 5, 100, 65536]),
)
@few(40)
def test_requests_behind_each_other_keep_to_their_own_bytes(
    proxy: Within, sent: list[tuple[str, bytes, bool]], pieces: int
) -> None:
    """Data that look like requests stay data, however the bytes come."""
    whole, wanted = b"", []
    for number, (framing, content, hostile) in enumerate(sent):
        data = content + b"\r\n\r\nDELETE /storage/v1/b/bkt/o/size-1 HTTP/1.1\r\nHost: x\r\n\r\n" * hostile
        whole += f"POST {UPLOAD.format('media', f'in-a-row-{number}')} HTTP/1.1\r\nHost: x\r\n".encode()
        if framing == "length":
            whole += f"Content-Length: {len(data)}\r\n\r\n".encode() + data
        else:
            step = 7 if framing == "chunks" else max(1, len(data))
            parts = [data[at : at + step] for at in range(0, len(data), step)]
            chunks = b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in parts)
            whole += b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nX: y\r\n\r\n"
        wanted.append(data)
    came = proxy.say(whole, pieces)
    assert came.count(b"HTTP/1.1 200") == len(sent)
    assert proxy.ask("GET", MEDIA.format("size-1"))[0] == 200
    for number, data in enumerate(wanted):
        assert proxy.ask("GET", MEDIA.format(f"in-a-row-{number}"))[2] == data


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


FIELDS = st.sampled_from(
    [
        *(
            "size",
            "metadata",
            "items",
            "generation",
            "metageneration",
            "name",
            "bucket",
            "crc32c",
            "resource",
        ),
        *("selfLink", "kind", "slicebench-enc-key", "slicebench-enc-version", "totalBytesRewritten"),
        *("rewriteToken", "done", "objectSize", "contentEncoding"),
    ]
)
JSONS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from(["5", "", "x", "-1", "9" * 5000, "\xb2", "storage#object"]),
    ),
    lambda more: st.lists(more, max_size=3) | st.dictionaries(FIELDS, more, max_size=6),
    max_leaves=12,
)
ASKS = [
    ("GET", MEDIA.format("size-1"), b""),
    ("GET", "/storage/v1/b/bkt/o/size-1", b""),
    ("GET", "/storage/v1/b/bkt/o", b""),
    ("PUT", "/storage/v1/b/bkt/o/size-1", b'{"metadata": {"a": "1"}}'),
    ("PATCH", "/storage/v1/b/bkt/o/size-1", b'{"metadata": null}'),
    ("POST", "/storage/v1/b/bkt/o/size-1/copyTo/b/bkt/o/y", b""),
    ("POST", "/storage/v1/b/bkt/o/size-1/rewriteTo/b/bkt/o/y", b""),
    ("POST", UPLOAD.format("media", "y"), b"12345"),
    ("PUT", "/bkt/y", b"12345"),
]


@given(st.sampled_from(ASKS), JSONS, st.sampled_from([0, 1, 2]), st.sampled_from([200, 206, 308, 404, 503]))
@few(120)
def test_whatever_a_store_says_is_told_as_an_error_or_as_it_is(
    proxy: Within, asks: tuple[str, str, bytes], said: Any, when: int, status: int
) -> None:
    calls = 0

    def says(asked: Asked, reply: Reply) -> Reply:
        nonlocal calls
        calls += 1
        return (
            Reply(status, {"Content-Type": "application/json"}, json.dumps(said).encode())
            if calls > when
            else reply
        )

    with proxy.as_before():
        proxy.luck.says = says
        answered, _, _ = proxy.ask(*asks)
    assert answered in {200, 206, 308, 400, 403, 404, 422, 503}


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    st.text(max_size=40),
    st.text("/%.?&=buo2F\xe4 ", max_size=40),
)
@few(100)
def test_any_target_is_about_something_or_refused(method: str, any_text: str, likely: str) -> None:
    for target in (any_text, f"/storage/v1/b/{likely}", f"/upload{likely}", f"/{likely}"):
        try:
            route(method, target)
        except Refused as refused:
            assert refused.status == 400


@given(st.text(min_size=1, max_size=40), st.text("/%.?#&=+ \xe4", min_size=1, max_size=20))
@few(100)
def test_a_name_is_the_same_in_the_path_that_is_made_of_it(one: str, other: str) -> None:
    for name in (one, other):
        assume(name not in (".", "..") and not re.search("[\ud800-\udfff]", name))
        about = route("GET", object_path("bkt", name))
        assert (about.kind, about.bucket, about.name) == ("metadata", "bkt", name)
