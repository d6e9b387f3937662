"""Uploads in other forms: multipart as clients write it, and the XML API; and hostile HTTP."""

from __future__ import annotations

import base64
import gzip
import io
import random
import socket
from pathlib import Path
from urllib.parse import urlsplit

import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.gcs_proxy import envelope
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.related import open_related
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, decrypted, serving

CONTENT = random.Random(6).randbytes(200_000)
MULTIPART = "/upload/storage/v1/b/{}/o?uploadType=multipart"


class Pieces(io.BytesIO):
    """A body that comes in small pieces."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read_into(self, view: memoryview) -> int:
        data = self.read(min(self._size, len(view)))
        view[: len(data)] = data
        return len(data)

    def fill(self, view: memoryview) -> int:
        filled = 0
        while filled < len(view) and (came := self.read_into(view[filled:])):
            filled += came
        return filled


@given(
    st.one_of(st.binary(max_size=60), st.text("\r\n-b", max_size=60).map(str.encode)),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\n", b"\r\n", b" \r\n"]),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([[], [b"content-type: a/b"], [b"X: y", b"content-type:", b" a/b"]]),
)
@example(b"x\r", b"\n", b"", 1, 1, [])
@example(b"\r\n--b--\r\n--b", b"\r\n", b"", 7, 3, [b"content-type: a/b"])
@example(b"abc\r\n\r\ndef", b"\r\n", b"", 40, 40, [])
@example(b"not: a header\r\n\r\ndef", b"\r\n", b"", 40, 40, [])
@settings(max_examples=150)
def test_the_bytes_of_a_multipart_body_are_all_that_is_between(
    content: bytes, line: bytes, end: bytes, size: int, asked: int, fields: list[bytes]
) -> None:
    head = line.join(
        [
            b"--b",
            b"Content-Type: application/json",
            b"",
            b'{"name": "x"}',
            b"--b",
            *fields,
            b"",
            b"",
        ]
    )
    resource, part = open_related(
        Pieces(head + content + line + b"--b--" + end, size), 'multipart/related; boundary="b"'
    )  # type: ignore[arg-type]
    assert resource == {"name": "x"}
    assert part.content_type == ("a/b" if fields else "")
    found, view = b"", memoryview(bytearray(asked))
    try:
        while came := part.fill(view):
            found += view[:came]
        assert found == content and b"\n--b" not in b"\n" + content
    except Refused:
        assert b"\n--b" in b"\n" + content + line  # by another reading, it ends there


def multipart(json: str, content: bytes, end: str = "--") -> bytes:
    head = f"--b\r\nContent-Type: application/json\r\n\r\n{json}\r\n--b\r\nContent-Type: text/y\r\n\r\n"
    return head.encode() + content + f"\r\n--b{end}".encode()


RELATED = {"Content-Type": "multipart/related; boundary=b"}
CODED = b"Content-Type: text/y\r\nContent-Transfer-Encoding: "


def test_a_multipart_upload_keeps_what_its_json_says(proxy: Proxy, store: Store, bucket: str) -> None:
    body = multipart('{"name": "x", "metadata": {"mine": "1"}, "cacheControl": "no-store"}', CONTENT)
    told = proxy.ask("POST", MULTIPART.format(bucket), body, RELATED).json
    assert (told["size"], told["metadata"], told["contentType"]) == ("200000", {"mine": "1"}, "text/y")
    resource = store.resource(bucket, "x")
    assert resource["cacheControl"] == "no-store"
    assert decrypted(proxy, store.raw(bucket, "x"), resource) == CONTENT


@pytest.mark.parametrize(
    "body, headers, said",
    [
        (
            multipart('{"name": "x", "metadata": {"slicebench-enc-key": "1"}}', b""),
            RELATED,
            "may not be named",
        ),
        (multipart('{"name": "x", "metadata": {"a": 1}}', b""), RELATED, "are not text"),
        (multipart('{"name": "x", "crc32c": "AAAAAA=="}', b"1"), RELATED, "doesn't match"),
        (multipart("{}", b""), RELATED, "Required parameter: name"),
        (multipart("[]", b""), RELATED, "no JSON object"),
        (multipart("{", b""), RELATED, "Parse Error"),
        (multipart('{"name": "x"}', b"1", end=""), RELATED, "does not end with its boundary"),
        (b"", RELATED, "has not JSON and then the object"),
        (
            multipart('{"name": "x"}', b"1").replace(b"Content-Type: text/y", b"no header"),
            RELATED,
            "header lines",
        ),
        *(
            (
                multipart('{"name": "x"}', content).replace(b"Content-Type: text/y", CODED + coding),
                RELATED,
                said,
            )
            for coding, content, said in (
                (b"quoted-printable", b"=41", "is 'quoted-printable'"),
                (b"\r\n  quoted-printable", b"=41", "is 'quoted-printable'"),
                (b"x", b"", "is 'x'"),
                (b"base64\r\ncontent-transfer-encoding: binary", b"", "twice"),
                (b"base64", b"QUI", "is no base64"),
                (b"base64", b"QU-I", "is no base64"),
                (b"base64", b"QUI=QUJD", "is no base64"),
                (b"base64", b"A" * 16380 + b"QUI=QUJD", "goes on behind its end"),
            )
        ),
        *(
            (multipart('{"name": "x"}', content), RELATED, "more parts than JSON and the object")
            for content in (
                b"first\r\n--b\r\nContent-Type: text/y\r\n\r\nsecond",
                b"first\r\n--b--\r\n",
                b"first\n--b",
                b"--b",
                CONTENT + b"\n--b",
            )
        ),
        (
            multipart('{"name": "x"}', b"1").replace(b"text/y", b"text/y\r\ncontent-encoding: gzip"),
            RELATED,
            "has a Content-Encoding",
        ),
        *(
            (
                multipart('{"name": "x"}', b"1").replace(b"Content-Type: application/json", fields),
                RELATED,
                "is UTF-8",
            )
            for fields in (
                b"Content-Transfer-Encoding: quoted-printable",
                b"content-transfer-encoding:\r\n base64",
                b"Content-Type: application/json; charset=utf-7",
                b'Content-Type: application/json;\r\n\tCHARSET = "utf-16"',
            )
        ),
        (b"before\r\n" + multipart('{"name": "x"}', b"1"), RELATED, "has not JSON and then"),
        (b"x" * 2_000_000, RELATED, "does not begin with JSON"),
        (
            multipart('{"name": "x"}', b"1"),
            {"Content-Type": 'multipart/related; boundary="b\\"'},
            "has characters that none has",
        ),
        (multipart('{"name": "x"}', b"1"), {"Content-Type": "text/plain"}, "is multipart/related"),
    ],
)
def test_a_multipart_upload_that_is_not_right_is_refused(
    proxy: Proxy, store: Store, bucket: str, body: bytes, headers: dict[str, str], said: str
) -> None:
    told = proxy.ask("POST", MULTIPART.format(bucket), body, headers)
    assert told.status == 400 and said in told.message
    assert proxy.read(bucket, "x").status == 404


@given(st.binary(max_size=300), st.integers(1, 40), st.integers(1, 40), st.integers(1, 100))
@example(bytes(30_000), 999, 7000, 76)  # of more than one piece
@settings(max_examples=60)
def test_what_comes_in_base64_is_unpacked(content: bytes, size: int, asked: int, line: int) -> None:
    text = base64.b64encode(content)
    lines = b"\r\n".join(text[at : at + line] for at in range(0, len(text), line))
    body = multipart("{}", lines).replace(b"Content-Type: text/y", CODED + b"BASE64")
    source = open_related(Pieces(body, size), RELATED["Content-Type"])[1].plaintext()  # type: ignore[arg-type]
    found, view = b"", memoryview(bytearray(asked))
    while came := source.fill(view):
        found += view[:came]
    assert found == content


def test_an_upload_in_base64_is_sealed_as_what_it_is_unpacked(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    """Cloud Storage stores what such a part is unpacked: googleapis of Dart sends all its uploads so."""
    crc32c = base64.b64encode(google_crc32c.Checksum(CONTENT).digest()).decode()
    body = multipart(f'{{"name": "x", "crc32c": "{crc32c}"}}', base64.b64encode(CONTENT))
    told = proxy.ask(
        "POST", MULTIPART.format(bucket), body.replace(b"Content-Type: text/y", CODED + b"base64"), RELATED
    )
    assert (told.status, told.json["size"], told.json["crc32c"]) == (200, "200000", crc32c)
    assert decrypted(proxy, store.raw(bucket, "x"), store.resource(bucket, "x")) == CONTENT


def test_the_form_that_gsutil_and_gcloud_write_is_read(store: Store, bucket: str, tmp_path: Path) -> None:
    """Their library puts single quotes around the boundary, and the headers of mail into each part."""
    body = (
        b"--===1==\nContent-Type: application/json\nMIME-Version: 1.0\n\n"
        b'{"name": "NAME"}\n--===1==\nContent-Type: text/y\nMIME-Version: 1.0\n'
        b"Content-Transfer-Encoding: binary\n\na\nb\n--===1==--"
    )
    headers = {"Content-Type": "multipart/related; boundary='===1=='"}
    with serving(store.url, tmp_path, f"{bucket}/enc/:KEY") as proxy:
        for name in ("x", "enc/x"):
            named = body.replace(b"NAME", name.encode())
            assert proxy.ask("POST", MULTIPART.format(bucket), named, headers).status == 200
            assert proxy.read(bucket, name).content == b"a\nb"
    assert (store.raw(bucket, "x"), b"a\nb" in store.raw(bucket, "enc/x")) == (b"a\nb", False)
    # One reading of the boundary goes on: the one by which it was looked for.
    calls = [call for call in store.calls(f"/b/{bucket}/o") if call["method"] == "POST"]
    assert calls[0]["headers"]["content-type"] == 'multipart/related; boundary="===1=="'


def test_a_multipart_upload_to_a_place_without_a_key_passes(
    store: Store, bucket: str, tmp_path: Path
) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret:KEY") as proxy:
        assert (
            proxy.ask("POST", MULTIPART.format(bucket), multipart('{"name": "x"}', CONTENT), RELATED).status
            == 200
        )
        assert store.raw(bucket, "x") == CONTENT
        target = MULTIPART.format(bucket) + "&name=secret"
        assert proxy.ask("POST", target, multipart('{"name": "x"}', CONTENT), RELATED).status == 400


def test_the_xml_api_uploads_and_reads_too(proxy: Proxy, store: Store, bucket: str) -> None:
    meta = {"Content-Type": "a/b", "x-goog-meta-mine": "1", "x-goog-if-generation-match": "0"}
    put = proxy.ask("PUT", f"/{bucket}/a/b%20c", CONTENT, meta)
    assert put.status == 200 and put.headers["x-goog-stored-content-length"] == "200000"
    assert decrypted(proxy, store.raw(bucket, "a/b c"), store.resource(bucket, "a/b c")) == CONTENT
    read = proxy.ask("GET", f"/{bucket}/a/b%20c")
    assert (read.status, read.content, read.headers["x-goog-meta-mine"]) == (200, CONTENT, "1")
    assert not [name for name in read.headers if "slicebench" in name.lower()]
    part = proxy.ask("GET", f"/{bucket}/a/b%20c", headers={"Range": "bytes=65507-65509"})
    assert (part.status, part.content) == (206, CONTENT[65507:65510])
    assert proxy.ask("HEAD", f"/{bucket}/a/b%20c").headers["Content-Length"] == "200000"
    again = proxy.ask("PUT", f"/{bucket}/a/b%20c", CONTENT, meta)
    assert again.status == 412 and b"<Code>PreconditionFailed</Code>" in again.content
    assert b"<Code>NoSuchKey</Code>" in proxy.ask("GET", f"/{bucket}/none").content
    for target, method, headers in (
        (f"/{bucket}/x", "PUT", {"x-goog-copy-source": f"/{bucket}/a"}),
        (f"/{bucket}/x?compose", "PUT", {}),
        (f"/{bucket}/x", "PUT", {"x-goog-meta-slicebench-enc-key": "1"}),
        (f"/{bucket}/x?uploads", "POST", {}),
        (f"/{bucket}", "GET", {}),
    ):
        refused = proxy.ask(method, target, b"", headers)
        assert refused.status == 400 and refused.content.startswith(b"<?xml"), target
    assert proxy.ask("DELETE", f"/{bucket}/a/b%20c").status == 204


def test_what_a_client_says_of_its_connection_takes_nothing_from_what_we_add(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    ours = ["content-type", "range", *(f"x-goog-meta-{name}" for name in envelope.NAMES)]
    through = {"Connection": ", ".join(ours)}
    assert proxy.ask("PUT", f"/{bucket}/x", CONTENT, through).status == 200
    assert decrypted(proxy, store.raw(bucket, "x"), store.resource(bucket, "x")) == CONTENT
    assert proxy.upload(bucket, "y", CONTENT, **through).status == 200
    part = proxy.ask("GET", f"/{bucket}/y", headers={**through, "Range": "bytes=70000-70009"})
    assert (part.status, part.content) == (206, CONTENT[70000:70010])
    (asked,) = [call for call in store.calls(f"/{bucket}/y") if call["method"] == "GET"]
    assert asked["headers"]["range"] == "bytes=65536-131071"


def test_an_object_that_is_gzip_is_what_was_sent_and_never_unpacked(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    packed = gzip.compress(CONTENT)
    body = multipart('{"name": "x", "contentEncoding": "gzip"}', packed)
    assert proxy.ask("POST", MULTIPART.format(bucket), body, RELATED).status == 200
    put = proxy.ask("PUT", f"/{bucket}/y", packed, {"Content-Encoding": "gzip"})
    assert put.status == proxy.upload(bucket, "z", packed, "&contentEncoding=gzip").status == 200
    for name in ("x", "y", "z"):
        told = proxy.read(bucket, name)
        assert (told.content, told.headers["Content-Encoding"]) == (packed, "gzip")
        assert proxy.read(bucket, name, "5-9").content == packed[5:10]


@pytest.mark.parametrize("how", ["media", "multipart", "resumable"])
def test_a_body_that_is_compressed_on_its_way_is_refused(
    proxy: Proxy, store: Store, bucket: str, how: str
) -> None:
    """The service would unpack it: sealed, it would be stored as what the client never meant to store."""
    told = {"Content-Encoding": "gzip", **(RELATED if how == "multipart" else {})}
    target, packed = f"/upload/storage/v1/b/{bucket}/o?uploadType={how}&name=x", gzip.compress(CONTENT)
    if how == "resumable":
        target = proxy.ask("POST", target, b"{}").headers["Location"].removeprefix(proxy.url)
    body = multipart("{}", packed) if how == "multipart" else packed
    refused = proxy.ask("PUT" if how == "resumable" else "POST", target, body, told)
    assert refused.status == 400 and "compressed on its way" in refused.message
    assert proxy.read(bucket, "x").status == 404


def raw(proxy: Proxy, data: bytes) -> bytes:
    """Returns all that comes for bytes that are no client's."""
    parts = urlsplit(proxy.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while more := client.recv(65536):
            answer += more
    return answer


POST = b"POST /upload/storage/v1/b/BUCKET/o?uploadType=media&name=x HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "data",
    [
        POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        POST + b"Content-Length: +3\r\n\r\nabc",
        POST + b"Content-Length: 3, 4\r\n\r\nabcd",
        POST + b"Content-Length: 3\r\nContent-Length : 4\r\n\r\nabcd",
        POST + b"Content-Length: 0x3\r\n\r\nabc",
        POST + b"Content-Length: 99999999999999999999\r\n\r\nabc",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        POST + b"X: \x00y\r\nContent-Length: 0\r\n\r\n",
        b"POST http://evil/upload/storage/v1/b/BUCKET/o?uploadType=media&name=x HTTP/1.1\r\nHost: x\r\n\r\n",
        POST + b"Content-Length: 3\nX: y\r\n\r\nabc",
        POST + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        POST + b"X : secret\r\n\r\n",
        POST + b"X: y\r\n folded\r\nContent-Length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\n\nHost: a",
        b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
        b"CONNECT evil:443 HTTP/1.1\r\nHost: evil\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    ],
)
def test_hostile_http_is_refused_and_its_connection_ended(
    proxy: Proxy, store: Store, bucket: str, data: bytes
) -> None:
    answer = raw(proxy, data.replace(b"BUCKET", bucket.encode()))
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.count(b"Content-Length") == 1, answer
    assert b"secret" not in answer
    assert proxy.read(bucket, "x").status == 404


def test_requests_behind_each_other_on_one_connection_are_answered_in_turn(proxy: Proxy, bucket: str) -> None:
    post = POST.replace(b"BUCKET", bucket.encode())
    get = f"GET /storage/v1/b/{bucket}/o/x?alt=media HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    data = (
        post + b"Content-Length: 3\r\n\r\nabc" + get + b"\r\n" + post + b"Transfer-Encoding: chunked\r\n\r\n"
    )
    answer = raw(proxy, data + b"2\r\nde\r\n0\r\n\r\n" + get + get.replace(b"1.1", b"1.0"))
    assert answer.count(b"HTTP/1.1 200") == 5
    assert answer.count(b"\r\n\r\nabc") == 1 and answer.count(b"\r\n\r\nde") == 2


def test_a_client_that_waits_is_told_to_go_on(proxy: Proxy, bucket: str) -> None:
    data = POST.replace(b"BUCKET", bucket.encode()) + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
    assert raw(proxy, data).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")
