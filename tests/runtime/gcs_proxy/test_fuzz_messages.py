"""Whatever a client says, a store answers, or a target is: an answer that says so, and no crash."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.routes import object_path, route
from tests.cloud.store.api import Asked, Reply
from tests.runtime.gcs_proxy.fuzzing import MEDIA, UPLOAD, few
from tests.runtime.gcs_proxy.fuzzing import proxy as proxy
from tests.runtime.gcs_proxy.within import Within


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
    assert statuses <= {100, 200, 204, 308, 400, 403, 404, 405, 410, 411, 412, 416, 422}, came


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
