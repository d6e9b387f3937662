"""Whatever is wrong with an object, its store or its client: an error that says so, and no wrong byte."""

from __future__ import annotations

import http.client
import random
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, path, serving

C, S = 65508, 65536
CONTENT = random.Random(5).randbytes(3 * C + 100)
UPLOAD = "/upload/storage/v1/b/{}/o?uploadType={}"


def cut_answer(proxy: Proxy, target: str, wanted: str = "") -> bytes:
    """Returns what comes of an answer that does not come whole."""
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.request("GET", target, headers={"Range": wanted} if wanted else {})
    with pytest.raises(http.client.IncompleteRead) as cut:
        connection.getresponse().read()
    return cut.value.partial


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "a bit of the first segment": lambda sealed: bytes([sealed[0] ^ 1]) + sealed[1:],
    "all of it": lambda sealed: b"x" * len(sealed),
    "nothing left": lambda sealed: b"",
    "segments exchanged": lambda sealed: sealed[S : 2 * S] + sealed[:S] + sealed[2 * S :],
    "a size that none has": lambda sealed: sealed[: S + 5],
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_beginning_is_answered_4xx_with_the_reason(
    proxy: Proxy, store: Store, bucket: str, how: str
) -> None:
    proxy.upload(bucket, "x", CONTENT)
    store.spoil(bucket, "x", SPOILT[how](store.raw(bucket, "x")))
    told = proxy.read(bucket, "x")
    assert told.status == 422
    assert "segment 0" in told.message or "bytes" in told.message


def test_a_spoilt_end_cuts_the_answer_after_what_is_right(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "x", CONTENT)
    sealed = store.raw(bucket, "x")
    store.spoil(bucket, "x", sealed[: 2 * S] + bytes([sealed[2 * S] ^ 1]) + sealed[2 * S + 1 :])
    assert cut_answer(proxy, f"{path(bucket, 'x')}?alt=media") == CONTENT[: 2 * C - 12]
    assert proxy.read(bucket, "x", f"5-{2 * C - 13}").content == CONTENT[5 : 2 * C - 12]
    assert proxy.read(bucket, "x", f"{2 * C}-{2 * C}").status == 422


def test_who_asks_again_for_what_was_cut_is_told_why(proxy: Proxy, store: Store, bucket: str) -> None:
    """Else clients, TensorStore among them, would take it for a broken connection, and ask for a quarter of an hour."""
    target = f"{path(bucket, 'x')}?alt=media"
    proxy.upload(bucket, "x", CONTENT)
    sealed = store.raw(bucket, "x")
    wrong = sealed[: 2 * S] + bytes([sealed[2 * S] ^ 1]) + sealed[2 * S + 1 :]
    store.spoil(bucket, "x", wrong)
    cut_answer(proxy, target)
    for asked in (None, f"0-{len(CONTENT) - 1}", None):
        told = proxy.read(bucket, "x", asked)
        assert told.status == 422 and "segment 2" in told.message
    assert proxy.read(bucket, "x", "0-9").content == CONTENT[:10]
    store.spoil(bucket, "x", sealed)  # it was the store's answers that were wrong
    assert proxy.read(bucket, "x").content == CONTENT
    store.spoil(bucket, "x", wrong)
    cut_answer(proxy, target)
    proxy.upload(bucket, "x", CONTENT)  # another generation
    assert proxy.read(bucket, "x").content == CONTENT


def test_a_cut_between_segments_is_found_at_the_end(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "x", CONTENT)
    store.spoil(bucket, "x", store.raw(bucket, "x")[: 2 * S])
    assert cut_answer(proxy, f"{path(bucket, 'x')}?alt=media") == CONTENT[: C - 12]
    assert proxy.read(bucket, "x", "-5").status == proxy.read(bucket, "x").status == 422


@pytest.mark.parametrize("left", [0, 1, 40, S, 2 * S])
@pytest.mark.parametrize("wanted", ["0-9", "-5", f"{2 * C}-"])
@pytest.mark.parametrize("is_known", [True, False])
def test_no_range_of_an_object_that_was_cut_is_said_not_to_be(
    proxy: Proxy, store: Store, bucket: str, left: int, wanted: str, is_known: bool
) -> None:
    proxy.upload(bucket, "x", CONTENT)
    if is_known:
        proxy.read(bucket, "x")
    sealed = store.raw(bucket, "x")
    store.spoil(bucket, "x", sealed[:left])
    told = proxy.read(bucket, "x", wanted)
    assert told.status == 422 or told.content == CONTENT[:10], told


@pytest.mark.parametrize("more", [1, 1000, S, 3 * S])
def test_an_object_that_was_extended_gives_nothing_beyond_its_plaintext(
    proxy: Proxy, store: Store, bucket: str, more: int
) -> None:
    """Nor what lies behind it sealed: of its trailer, one part is in the segment before the last one here."""
    content = CONTENT[: C - 5]
    proxy.upload(bucket, "x", content)
    sealed = store.raw(bucket, "x")
    store.spoil(bucket, "x", sealed + bytes(more))
    assert proxy.read(bucket, "x", "0-9").content == content[:10]
    for wanted in (f"{C - 8}-{C - 1}", f"{C - 5}-", "-5", f"{C}-{C + 1}"):
        told = proxy.read(bucket, "x", wanted)
        assert told.status == 422, (wanted, told.status, told.content)
    assert cut_answer(proxy, f"{path(bucket, 'x')}?alt=media") == content[: C - 12]


def test_an_object_in_anothers_place_is_refused(proxy: Proxy, store: Store, bucket: str) -> None:
    for name in ("a", "b", "c"):
        proxy.upload(bucket, name, CONTENT)
    for name in ("b", "c"):
        store.spoil(bucket, name, store.raw(bucket, "a"))
    assert "segment 0" in proxy.read(bucket, "b").message
    store.patch(bucket, "c", {"metadata": store.resource(bucket, "a")["metadata"]})
    told = proxy.read(bucket, "c")
    assert told.status == 403 and "another place" in told.message


def test_metadata_that_are_gone_or_spoilt_are_refused(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "x", CONTENT)
    store.patch(bucket, "x", {"metadata": {"slicebench-enc-version": "7"}})
    assert "format '7'" in proxy.read(bucket, "x").message
    store.patch(bucket, "x", {"metadata": {"slicebench-enc-version": None}})
    assert "lack slicebench-enc-version" in proxy.read(bucket, "x").message
    store.patch(bucket, "x", {"metadata": None})
    told = proxy.read(bucket, "x")
    assert told.status == 422 and "is not encrypted" in told.message
    assert int(proxy.ask("GET", path(bucket, "x")).json["size"]) > len(CONTENT)


@pytest.mark.parametrize(
    "method, target, body, told",
    [
        ("POST", "/upload/storage/v1/b/BUCKET/o?uploadType=other&name=x", b"", "uploads of the type 'other'"),
        ("POST", "/upload/storage/v1/b/BUCKET/o?uploadType=media", b"", "Required parameter: name"),
        ("POST", "/upload/storage/v1/b/BUCKET/o?uploadType=media&name=a&name=b", b"", "given twice"),
        ("POST", "/storage/v1/b/BUCKET/o", b"{}", "insert"),
        ("POST", "/storage/v1/b/BUCKET/o/x/compose", b"{}", "compose"),
        ("POST", "/storage/v1/b/BUCKET/o/x/moveTo/o/y", b"", "moveTo"),
        ("POST", "/storage/v1/b/BUCKET/folders/x%2F/renameTo/folders/y%2F", b"", "renameTo of a folder of"),
        ("POST", "/storage/v1/b/BUCKET/folders/x/y/renameTo/folders/z", b"", "slashes that are not escaped"),
        ("POST", "/storage/v1/b/BUCKET/folders/x/renameTo/folders/y/z", b"", "slashes that are not escaped"),
        ("GET", "/storage/v1/b/BUCKET/../other/o/x?alt=media", None, "has dots"),
        ("GET", "/storage/v1/b/BUCKET/o/%ff?alt=media", None, "is not UTF-8"),
        ("PUT", "/upload/storage/v1/b/BUCKET", b"", "no path for uploads"),
        ("POST", "//upload/storage/v1/b/BUCKET/o?uploadType=media&name=x", b"", "two slashes"),
        ("POST", "/%75pload/storage/v1/b/BUCKET/o?uploadType=media&name=x", b"", "with escapes"),
        ("POST", "/upload/storage/v1/%62/BUCKET/o?uploadType=media&name=x", b"", "with escapes"),
        ("POST", "/upload/storage//v1/b/BUCKET/o?uploadType=media&name=x", b"", "no path of the JSON API"),
        (
            "POST",
            "/upload/storage/v1beta2/b/BUCKET/o?uploadType=media&name=x",
            b"",
            "no path of the JSON API",
        ),
        ("POST", "/Upload/storage/v1/b/BUCKET/o?uploadType=media&name=x", b"", "no path of the JSON API"),
        ("PUT", "/storage/x", b"", "no path of the JSON API"),
        ("GET", "/storage//v1/b/BUCKET/o/x?alt=media", None, "no path of the JSON API"),
        ("GET", "/storage/v1beta1/b/BUCKET/o/x?alt=media", None, "no path of the JSON API"),
        ("GET", "/download/storage/v1/b/BUCKET/?alt=media", None, "no path of the JSON API"),
        ("GET", "/storage/v1/b/BUCKET/", None, "does not go by this path"),
        ("POST", "/storage/v1/b/BUCKET/unknown", b"", "does not go by this path"),
        ("POST", "/storage/v1/B/BUCKET/o/x/rewriteTo/b/BUCKET/o/y", b"", "no path of the JSON API"),
        ("POST", "/storage/v1/b;x/BUCKET/o/x/rewriteTo/b/BUCKET/o/y", b"", "no path of the JSON API"),
        ("POST", "/storage/v1/b/BUCKET/O/x/rewriteTo/b/BUCKET/o/y", b"", "no path of the JSON API"),
        ("POST", "/storage/v1/b/BUCKET/o;x/x/rewriteTo/b/BUCKET/o/y", b"", "no path of the JSON API"),
        ("POST", "/storage/v1/b/BUCKET/o/a/b/compose", b"{}", "slashes that are not escaped"),
        ("POST", "/storage/v1/b/BUCKET/o/a/rewriteTo/b/BUCKET/o/b/c", b"", "slashes that are not escaped"),
        ("POST", "/storage/v1/b/BUCKET/o/a/rewriteTo/x/BUCKET/o/b", b"", "not escaped"),
        ("PUT", "/BUCKET%2Fx", b"1", "no bucket is called"),
        ("PUT", "/BUCKET%2fx/y", b"1", "no bucket is called"),
        ("GET", "/BUCKET%2Fx", None, "no bucket is called"),
        ("DELETE", "/BUCKET%5Cx", None, "no bucket is called"),
        ("PUT", "/plain%2F..%2FBUCKET/x", b"1", "no bucket is called"),
        ("PUT", "/plain/%2e%2e/BUCKET/x", b"1", "has dots"),
        ("PUT", "/plain/a/.%2E/../BUCKET/x", b"1", "has dots"),
        ("PUT", "/BUCKET/x#y", b"1", "is no path"),
        ("POST", "/upload%2Fstorage/v1/b/BUCKET/o?uploadType=media&name=x", b"1", "no bucket is called"),
        (
            "POST",
            "/upload%2Fstorage%2Fv1%2Fb%2FBUCKET%2Fo?uploadType=media&name=x",
            b"1",
            "no bucket is called",
        ),
        ("POST", "/upload/storage/v1/b%2FBUCKET/o?uploadType=media&name=x", b"1", "no path of the JSON API"),
        ("POST", "/upload/storage/v1/b/BUCKET%2Fo?uploadType=media&name=x", b"1", "no path for uploads"),
        (
            "POST",
            "/upload/storage/v1/b/x%2F..%2FBUCKET/o?uploadType=media&name=x",
            b"1",
            "no bucket is called",
        ),
        ("GET", "/storage/v1/b/BUCKET%2Fo/o/x?alt=media", None, "no bucket is called"),
        ("GET", "/storage/v1/b%2FBUCKET/o/x?alt=media", None, "no path of the JSON API"),
        ("GET", "/download/storage/v1/b/BUCKET%2Fo%2Fx", None, "no bucket is called"),
        ("POST", "/storage/v1/b/plain/o/a/copyTo/b/BUCKET%2Fo/o/b", b"", "no bucket is called"),
        ("PUT", "/discovery/a/b/c/d/../../../../../BUCKET/x", b"1", "has dots"),
        ("POST", "/batch/storage/v1/x", b"", "batches go to"),
        ("POST", "/batch%2Fstorage/v1", b"", "no bucket is called"),
        ("GET", "http://other/storage/v1/b/BUCKET/o/x", None, "no path"),
    ],
)
def test_what_cannot_be_done_is_refused_and_the_store_never_asked(
    proxy: Proxy, store: Store, bucket: str, method: str, target: str, body: bytes | None, told: str
) -> None:
    before = len(store.calls())
    answer = proxy.ask(method, target.replace("BUCKET", bucket), body)
    assert 400 <= answer.status < 500 and told in answer.content.decode()
    assert len(store.calls()) == before


def test_a_method_in_a_header_is_refused(proxy: Proxy, store: Store, bucket: str) -> None:
    told = proxy.ask("POST", path(bucket, "x"), b"", {"X-HTTP-Method-Override": "DELETE"})
    assert told.status == 400 and not store.calls(bucket)


def test_grpc_is_refused_with_the_way_out(proxy: Proxy) -> None:
    told = proxy.ask(
        "POST", "/google.storage.v2.Storage/ReadObject", b"", {"Content-Type": "application/grpc"}
    )
    assert told.status == 400 and "TENSORSTORE_GCS_BACKEND=gcs" in told.message


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 412, 429, 500, 503])
def test_errors_of_the_store_go_on_as_they_are(proxy: Proxy, store: Store, bucket: str, status: int) -> None:
    body = f'{{"error": {{"code": {status}, "message": "its own words"}}}}'
    store.faults(
        {"path": bucket, "times": 9, "status": status, "body": body, "headers": {"Retry-After": "7"}}
    )
    for told in (
        proxy.read(bucket, "x"),
        proxy.upload(bucket, "x", CONTENT),
        proxy.ask("GET", path(bucket, "x")),
        proxy.ask("DELETE", path(bucket, "x")),
        proxy.ask("GET", f"/storage/v1/b/{bucket}/o"),
    ):
        assert (told.status, told.content.decode(), told.headers["Retry-After"]) == (status, body, "7")


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503])
@pytest.mark.parametrize("wanted", [None, "5-9", "-5"])
def test_bytes_of_which_nothing_is_known_do_not_go_on(
    proxy: Proxy, store: Store, bucket: str, status: int, wanted: str | None
) -> None:
    store_name = f"x{status}{wanted}"  # that no test before has read: the proxy remembers keys
    proxy.upload(bucket, store_name, CONTENT)
    body = f'{{"error": {{"code": {status}}}}}'
    store.faults({"path": f"{bucket}.*alt=json", "times": 9, "status": status, "body": body})
    told = proxy.read(bucket, store_name, wanted)
    assert (told.status, told.content.decode()) == (status, body)


def test_objects_of_two_kinds_of_places_are_not_put_together_or_moved(
    store: Store, bucket: str, tmp_path: Path
) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret/:KEY") as proxy:
        proxy.upload(bucket, "secret/x", b"12345")
        proxy.upload(bucket, "open", b"12345")
        sources = b'{"sourceObjects": [{"name": "open"}, {"name": "secret/x"}], "destination": {}}'
        before = len(store.calls(bucket))
        for method, target, body, headers in (
            ("POST", f"{path(bucket, 'both')}/compose", sources, {}),
            ("POST", f"{path(bucket, 'open')}/moveTo/o/secret%2Fy", b"", {}),
            *(
                ("POST", f"/storage/v1/b/{bucket}/folders/{one}/renameTo/folders/{other}", b"", {})
                for one, other in (("a%2F", "secret%2Fb"), ("secret%2Fx%2F", "y"), ("secret", "y"))
            ),
            ("POST", f"{path(bucket, 'secret/x')}/moveTo/o/y", b"", {}),
            ("POST", f"/storage/v1/b/{bucket}/o", b'{"name": "secret/y"}', {}),
            ("POST", f"/{bucket}", b"a form that uploads secret/y", {}),
        ):
            told = proxy.ask(method, target, body, headers)
            assert told.status == 400 and b"of encrypted objects" in told.content
        parts = b"<ComposeRequest><Component><Name>secret/x</Name></Component></ComposeRequest>"
        told = proxy.ask("PUT", f"/{bucket}/both?compose", parts)
        assert told.status == 400 and b"by the JSON API" in told.content
        for place in (bucket, store.new_bucket()):
            for source in (f"/{bucket}/secret%2Fx", f"{bucket}%2Fsecret%2Fx", f"/open/../{bucket}/secret/x"):
                told = proxy.ask("PUT", f"/{place}/y", b"", {"x-goog-copy-source": source})
                assert told.status == 400 and (b"by the JSON API" in told.content or b"dots" in told.content)
        assert len(store.calls(bucket)) == before
        alone = sources.replace(b', {"name": "secret/x"}', b"")
        assert proxy.ask("POST", f"{path(bucket, 'both')}/compose", alone).status in (200, 400, 404, 501)
        renamed = f"/storage/v1/b/{bucket}/folders/secrets/renameTo/folders/b%2F"
        assert proxy.ask("POST", renamed).status in (200, 400, 404, 501)
        assert len(store.calls(bucket)) == before + 2, "what has no key passes"


def test_a_store_that_is_not_there_is_told_as_503(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with serving(f"http://127.0.0.1:{taken.getsockname()[1]}", tmp_path) as proxy:
            told = proxy.read("bkt", "x")
            assert told.status == 503 and "cannot be reached" in told.message
            assert proxy.upload("bkt", "x", b"1").status == 503


def test_a_client_that_breaks_off_leaves_no_object(proxy: Proxy, store: Store, bucket: str) -> None:
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x"
    parts = urlsplit(proxy.url)
    for framing in (
        b"Content-Length: 500000\r\n\r\n" + bytes(70_000),
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    ):
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as client:
            client.sendall(f"POST {target} HTTP/1.1\r\nHost: x\r\n".encode() + framing)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
    assert proxy.read(bucket, "x").status == 404
