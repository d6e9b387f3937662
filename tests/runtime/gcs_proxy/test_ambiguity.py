"""What another server may read otherwise than we do is refused: where one reading has a key, the other has none."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, Told, path, serving

UPLOAD = "/upload/storage/v1/b/BUCKET/o?uploadType="
RELATED = {"Content-Type": "multipart/related; boundary=b"}
MIXED = {"Content-Type": "multipart/mixed; boundary=b"}
SECRET = "/storage/v1/b/BUCKET/o/enc%2Fa"


@pytest.fixture
def proxy(store: Store, bucket: str, tmp_path: Path) -> Iterator[Proxy]:
    """Of its bucket, objects below enc/ are encrypted, and no others."""
    with serving(store.url, tmp_path, f"{bucket}/enc/:KEY") as made:
        yield made


def related(json: str, *more: str) -> bytes:
    """Returns a multipart upload of `plain`, with further parts behind it."""
    parts = [f"Content-Type: application/json\r\n\r\n{json}", "Content-Type: a/b\r\n\r\nplain", *more]
    return "".join(f"--b\r\n{part}\r\n" for part in parts).encode() + b"--b--\r\n"


def batch(request: str) -> bytes:
    return f"--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n--b--\r\n".encode()


def refused(proxy: Proxy, store: Store, bucket: str, method: str, target: str, body: bytes | None,
            headers: Mapping[str, str], said: str) -> Told:  # fmt: skip
    """Asks, and sees that the store was not asked for anything."""
    before = len(store.calls())
    filled = None if body is None else body.replace(b"BUCKET", bucket.encode())
    told = proxy.ask(method, target.replace("BUCKET", bucket), filled, headers)
    assert told.status == 400 and said in told.content.decode(), told
    assert len(store.calls()) == before
    return told


@pytest.mark.parametrize(
    ("target", "body", "said"),
    [
        ("multipart&name=x", related('{"name": "enc/a"}'), "one name in the query and another"),
        ("multipart&name=enc%2Fa", related('{"name": "x"}'), "one name in the query and another"),
        ("multipart", related('{"name": "enc/a", "name": "x"}'), "a name is given twice"),
        ("multipart&name=x", related('{"a": {"b": 1, "b": 2}}'), "a name is given twice"),
        ("multipart", related('{"name": ["enc/a"]}'), "the object's name is no text"),
        ("multipart&name=x", related('{"name": true}'), "the object's name is no text"),
        ("multipart&name=x", related('{"name": NaN}'), "NaN is no number"),
        ("multipart", related('{"name": "\\ud800"}'), "Parse Error"),
        ("resumable", b'{"name": "enc/a", "name": "x"}', "a name is given twice"),
        ("resumable", b'{"name": 1}', "the object's name is no text"),
        ("resumable", b'{"name": "\\ud800"}', "Parse Error"),
        ("resumable&name=x", '{"name": "enc/a"}'.encode("utf-16"), "Parse Error"),
    ],
)
def test_an_object_has_one_name(
    proxy: Proxy, store: Store, bucket: str, target: str, body: bytes, said: str
) -> None:
    refused(proxy, store, bucket, "POST", UPLOAD + target, body, RELATED, said)


def test_one_name_told_twice_is_one(proxy: Proxy, store: Store, bucket: str) -> None:
    for name in ("x", "enc/x"):
        target = f"{UPLOAD}multipart&name={name.replace('/', '%2F')}".replace("BUCKET", bucket)
        told = proxy.ask("POST", target, related(f'{{"name": "{name}"}}'), RELATED)
        assert (told.status, told.json["name"], told.json["size"]) == (200, name, "5")
        assert proxy.read(bucket, name).content == b"plain"
    assert (store.raw(bucket, "x"), b"plain" in store.raw(bucket, "enc/x")) == (b"plain", False)


def test_a_third_part_goes_to_no_object(proxy: Proxy, store: Store, bucket: str) -> None:
    third = 'Content-Type: application/json\r\n\r\n{"name": "enc/a"}'
    for body in (related('{"name": "x"}', third), related('{"name": "x"}') + related('{"name": "enc/a"}')):
        told = proxy.ask("POST", f"{UPLOAD}multipart".replace("BUCKET", bucket), body, RELATED)
        assert told.status == 400 and "more parts" in told.message
    names = [one["name"] for one in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json.get("items", ())]
    assert not names


@pytest.mark.parametrize(
    "sources", [b'[{"name": "enc/a", "name": "b"}]', b'[["enc/a"]]', b'{"name": "enc/a"}']
)
def test_what_is_put_together_is_named_once(proxy: Proxy, store: Store, bucket: str, sources: bytes) -> None:
    target = "/storage/v1/b/BUCKET/o/x/compose"
    refused(proxy, store, bucket, "POST", target, b'{"sourceObjects": ' + sources + b"}", {}, "")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("POST /storage/v1/b/plain/o/pp/copyTo/b/BUCKET/o/enc%2Fa\r\n\r\n", "may not be in it"),
        ("POST /storage/v1/b/plain/o/pp/rewriteTo/b/BUCKET/o/enc%2Fa\r\n\r\n", "may not be in it"),
        ("POST /batch/storage/v1\r\n\r\nanything", "may not be in it"),
        ("POST /upload/storage/v1/b/plain/o?uploadType=media&name=x\r\n\r\n1", "may not be in it"),
        ("DELETE /storage/v1/b/plain/o/x\r\nX-HTTP-Method-Override: PUT\r\n\r\n1", "by its method alone"),
        ("DELETE /storage/v1/b/plain/o/x\r\nX-HTTP-Method: PUT\r\n\r\n1", "by its method alone"),
        ("DELETE /storage/v1/b/plain/o/x\r\nX: y\rX-HTTP-Method: PUT\r\n\r\n", "that is not HTTP's"),
        ("DELETE /storage/v1/b/plain/o/x\r\nX y: z\r\n\r\n", "that is not HTTP's"),
        (f"DELETE /storage/v1/b/plain/o/x\r\n\r\n\r\n--b also\r\n\r\nPUT {SECRET}\r\n\r\n1", "and goes on"),
        (f"DELETE /storage/v1/b/plain/o/x\r\n\r\n\r--b\r\rPUT {SECRET}\r\r1", "and goes on"),
    ],
)
def test_a_batch_is_no_way_around(proxy: Proxy, store: Store, bucket: str, request_: str, said: str) -> None:
    refused(proxy, store, bucket, "POST", "/batch/storage/v1", batch(request_), MIXED, said)


def test_a_request_of_a_batch_stands_there_as_it_is(proxy: Proxy, store: Store, bucket: str) -> None:
    body = batch("DELETE /storage/v1/b/plain/o/x\r\n\r\n")
    coded = body.replace(b"http\r\n", b"http\r\nContent-Transfer-Encoding: quoted-printable\r\n", 1)
    refused(proxy, store, bucket, "POST", "/batch/storage/v1", coded, MIXED, "as it is")


def test_a_part_of_a_batch_has_no_body_that_it_does_not_need(proxy: Proxy, store: Store, bucket: str) -> None:
    before = len(store.calls())
    asked = f"DELETE {SECRET}\r\nContent-Length: 5\r\n\r\nplain".replace("BUCKET", bucket)
    told = proxy.ask("POST", "/batch/storage/v1", batch(asked), MIXED)
    assert b"HTTP/1.1 400" in told.content and b"DELETE has no body here" in told.content
    assert len(store.calls()) == before


@pytest.mark.parametrize(
    "target", [SECRET, "/BUCKET/enc/a", "/storage/v1/b/BUCKET/o", "/storage/v1/b/BUCKET/o/x"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_that_no_such_request_has_does_not_go_up(
    proxy: Proxy, store: Store, bucket: str, method: str, target: str
) -> None:
    refused(proxy, store, bucket, method, target, b"plain", {}, f"{method} has no body here")


def test_an_empty_body_is_none(proxy: Proxy, bucket: str) -> None:
    assert proxy.ask("DELETE", path(bucket, "enc/none"), b"").status == 404
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.request("DELETE", path(bucket, "enc/none"), iter(()), encode_chunked=True)
    assert connection.getresponse().status == 404
    connection.close()


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([("X-HTTP-Method-Override", "PUT")], "by its method alone"),
        ([("X-HTTP-Method", "PUT")], "by its method alone"),
        ([("X-Method-Override", "PUT")], "by its method alone"),
        ([("Content-Type", "multipart/related; boundary=b")] * 2, "content-type is given twice"),
        ([("Content-Type", "multipart/related; boundary=b; boundary=c")], "two boundaries"),
        ([("Content-Type", "multipart/related; boundary=b;boundary*0=c")], "two boundaries"),
        ([("X-Goog-Copy-Source", "BUCKET/a"), ("x-goog-copy-source", "BUCKET/enc/a")], "is given twice"),
        (
            [("Content-Range", "bytes 0-0/1"), ("Content-Range", "bytes 0-1/2")],
            "content-range is given twice",
        ),
    ],
)
def test_a_head_says_each_thing_once(
    proxy: Proxy, store: Store, bucket: str, headers: list[tuple[str, str]], said: str
) -> None:
    before = len(store.calls())
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.putrequest("POST", f"{UPLOAD}multipart".replace("BUCKET", bucket))
    for name, value in [*headers, ("Content-Length", "0")]:
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 400 and said in response.read().decode()
    connection.close()
    assert len(store.calls()) == before


@pytest.mark.parametrize(
    ("method", "target", "headers", "said"),
    [
        ("POST", f"{UPLOAD}media&name=x", {"X-Goog-Upload-Protocol": "resumable"}, "by uploadType alone"),
        ("POST", f"{UPLOAD}resumable&name=x", {"x-goog-upload-command": "start"}, "by uploadType alone"),
        ("POST", f"{UPLOAD}media&name=x&upload_protocol=resumable", {}, "not by upload_protocol"),
        ("POST", f"{UPLOAD}media&name=x&%75pload_type=multipart", {}, "not by upload_type"),
        ("POST", f"{UPLOAD}media&name=x&$uploadType=multipart", {}, "not by $uploadType"),
        ("PUT", "/BUCKET/enc/x", {"x-amz-meta-slicebench-enc-version": "2"}, "may not be named"),
        (
            "PUT",
            "/BUCKET/enc/x",
            {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"},
            "not sealed",
        ),
        ("PUT", "/BUCKET/enc/x", {"x-goog-content-sha256": "0" * 64}, "not sealed"),
        ("PUT", "/enc/x", {"Host": "BUCKET.storage.googleapis.com"}, "the path begins with the bucket"),
        ("PUT", "/enc/x", {"Host": "BUCKET.COMMONDATASTORAGE.googleapis.com.:443"}, "begins with the bucket"),
        ("GET", "/BUCKET/enc/x", {"Host": "storage.us-east1.rep.googleapis.com"}, "begins with the bucket"),
    ],
)
def test_an_upload_is_of_one_kind_and_to_one_place(
    proxy: Proxy, store: Store, bucket: str, method: str, target: str, headers: dict[str, str], said: str
) -> None:
    told = {name: value.replace("BUCKET", bucket) for name, value in headers.items()}
    refused(proxy, store, bucket, method, target, None if method == "GET" else b"plain", told, said)


def test_what_passes_goes_on_as_it_was_read(proxy: Proxy, store: Store, bucket: str) -> None:
    """A server that parts a query at `;`, or heeds another charset, would find another name."""
    upload, other = UPLOAD.replace("BUCKET", bucket), {"Content-Type": "application/json; charset=utf-7"}
    assert proxy.ask("POST", f"{upload}media&name=x;name=enc/a", b"plain").status == 200
    assert proxy.ask("POST", f"{upload}multipart&name=y;name=enc/a", related("{}"), RELATED).status == 200
    assert proxy.ask("POST", f"{upload}resumable&name=z;name=enc/a", b"{}", other).status == 200
    proxy.ask("POST", f"{path(bucket, 'x')}/compose", b'{"sourceObjects": [{"name": "y"}]}', other)
    calls = [call for call in store.calls(bucket) if call["method"] == "POST"]
    *uploads, compose = calls
    assert [call["target"].partition("name=")[2] for call in uploads] == [
        f"{name}%3Bname%3Denc%2Fa" for name in "xyz"
    ]
    told = "application/json; charset=UTF-8"
    assert uploads[2]["headers"]["content-type"] == compose["headers"]["content-type"] == told


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", f"{UPLOAD}media&name=enc%2Fx"),
        ("POST", f"{UPLOAD}resumable&name=enc%2Fx"),
        ("PUT", "/BUCKET/enc/x"),
        ("GET", f"{SECRET}?alt=media"),
        ("GET", SECRET),
        ("DELETE", SECRET),
        ("POST", f"{SECRET}/rewriteTo/b/BUCKET/o/enc%2Fb"),
    ],
)
def test_no_answer_leads_past_the_proxy(
    proxy: Proxy, store: Store, bucket: str, method: str, target: str
) -> None:
    """Who followed it would send plaintext there, or read what nobody has looked at."""
    leading = {"Location": "https://elsewhere/x", "Alt-Svc": 'h3=":443"'}
    store.faults({"path": bucket, "times": 9, "status": 307, "body": "{}", "headers": leading})
    body = b"{}" if method == "POST" else b"plain" if method == "PUT" else None
    told = proxy.ask(method, target.replace("BUCKET", bucket), body)
    assert told.status == 307 and not {"location", "alt-svc"} & {name.lower() for name in told.headers}


def test_no_checksum_of_the_plaintext_goes_up(proxy: Proxy, store: Store, bucket: str) -> None:
    crc32c = "CRC32C of plain"
    told = {
        "x-amz-checksum-crc32c": crc32c,
        "Content-Digest": crc32c,
        "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
    }
    assert proxy.ask("PUT", f"/{bucket}/enc/x", b"plain", told).status == 200
    assert proxy.read(bucket, "enc/x").content == b"plain"
    (call,) = [call for call in store.calls(f"/{bucket}/enc/x") if call["method"] == "PUT"]
    assert crc32c not in call["headers"].values() and "x-amz-content-sha256" in call["headers"]


@pytest.mark.parametrize("target", [f"{UPLOAD}media&name=enc%2Fx", "/BUCKET/enc/x", ""])
def test_an_upload_that_does_not_say_how_long_it_is_is_none_of_nothing(
    proxy: Proxy, store: Store, bucket: str, target: str
) -> None:
    if not target:
        began = proxy.ask("POST", f"{UPLOAD}resumable&name=enc%2Fx".replace("BUCKET", bucket), b"{}")
        target = began.headers["Location"].removeprefix(proxy.url)
    before = len(store.calls())
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.putrequest("POST" if "media" in target else "PUT", target.replace("BUCKET", bucket))
    connection.putheader("Content_Length", "5")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()
    assert len(store.calls()) == before


@pytest.mark.parametrize("body", [b'{"metadata": {"a": "\\ud800"}}', b'{"metadata": {"\\udc00": "a"}}'])
@pytest.mark.parametrize(
    ("method", "behind"), [("PATCH", ""), ("PUT", ""), ("POST", "/rewriteTo/b/BUCKET/o/enc%2Fb")]
)
def test_half_a_character_is_answered(
    proxy: Proxy, store: Store, bucket: str, method: str, behind: str, body: bytes
) -> None:
    refused(proxy, store, bucket, method, SECRET + behind, body, {}, "Parse Error")
