"""Resumable uploads: chunks of any size, status queries, cuts on either side, and stores that do not say the truth."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import socket
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.gcs_proxy.format import Layout
from runtime.gcs_proxy.refusal import Refused
from runtime.gcs_proxy.seal import Sealer
from runtime.gcs_proxy.sealing import Checksums, Plaintext
from runtime.gcs_proxy.upload_state import Session, parse_chunk
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, Told, decrypted, serving
from tests.runtime.gcs_proxy.test_whole import crc32c
from tests.waiting import PATIENCE_S

C = 65508
BLOCK = 4 * C


def data(size: int) -> bytes:
    return random.Random(size).randbytes(size)


class Upload:
    """One upload, by hand."""

    def __init__(self, proxy: Proxy, bucket: str, resource: Any = None, **headers: str) -> None:
        self.proxy = proxy
        target = f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=a/%C3%A4"
        told = {
            "Content-Type": "application/json",
            **{key.replace("_", "-"): text for key, text in headers.items()},
        }
        self.begun = proxy.ask("POST", target, json.dumps(resource or {}), told)
        location = urlsplit(self.begun.headers.get("Location", ""))
        assert self.begun.status != 200 or f"http://{location.netloc}" == proxy.url
        self.target = f"{location.path}?{location.query}"

    def put(self, content: Any, told: str, **headers: str) -> Told:
        more = {key.replace("_", "-"): text for key, text in headers.items()}
        return self.proxy.ask("PUT", self.target, content, {"Content-Range": told, **more})

    def rest(self, content: bytes, kept: int) -> Told:
        """Sends what of it is not kept yet."""
        return self.put(content[kept:], f"bytes {kept}-{len(content) - 1}/{len(content)}")

    def status(self, total: str = "*") -> Told:
        return self.put(b"", f"bytes */{total}")

    def chunks(self, content: bytes, size: int, last: int | None = None) -> Told:
        """Sends all of it in chunks; each has to be taken whole."""
        ends = [*range(size, len(content), size), len(content)]
        begin = 0
        for end in ends:
            total = len(content) if end == len(content) else "*"
            told = self.put(content[begin:end], f"bytes {begin}-{end - 1}/{total}")
            if end < len(content):
                assert (told.status, told.headers["Range"], told.content) == (308, f"bytes=0-{end - 1}", b"")
            begin = end
        return told


def check(proxy: Proxy, store: Store, bucket: str, told: Told, content: bytes) -> None:
    assert told.status == 200
    assert (told.json["size"], told.json["crc32c"]) == (str(len(content)), crc32c(content))
    assert decrypted(proxy, store.raw(bucket, "a/ä"), store.resource(bucket, "a/ä")) == content
    assert proxy.read(bucket, "a/ä").content == content


@pytest.mark.parametrize(
    "size, chunk",
    [
        (1, 5),
        (600_000, 256 << 10),
        (1 << 20, 256 << 10),
        (3 * BLOCK, BLOCK),
        (3 * BLOCK - 12, BLOCK),
        (2 * BLOCK + 7, 100_001),
        (1_300_000, 1_000_000),
        (5 * C, 5 * C),
        (300, 7),
    ],
)
def test_an_upload_in_chunks_of_any_size(
    proxy: Proxy, store: Store, bucket: str, size: int, chunk: int
) -> None:
    check(proxy, store, bucket, Upload(proxy, bucket).chunks(data(size), chunk), data(size))
    calls = store.calls(f"{bucket}/o?uploadType=resumable&upload_id=")
    assert calls
    for call in calls:
        told = call["headers"].get("content-range", "")
        if told.endswith("/*") and "-" in told:
            begin, end = told.removeprefix("bytes ").removesuffix("/*").split("-")
            assert int(begin) % (256 << 10) == (int(end) + 1) % (256 << 10) == 0, told


@pytest.mark.parametrize("how", ["bytes */0", ""])
def test_an_object_of_nothing(proxy: Proxy, store: Store, bucket: str, how: str) -> None:
    upload = Upload(proxy, bucket)
    headers = {"Content-Range": how} if how else {}
    check(proxy, store, bucket, proxy.ask("PUT", upload.target, b"", headers), b"")


def test_all_in_one_request_without_a_range(proxy: Proxy, store: Store, bucket: str) -> None:
    content = data(3 * BLOCK + 5)
    resource = {"metadata": {"mine": "1"}, "crc32c": crc32c(content)}
    upload = Upload(
        proxy, bucket, resource, X_Upload_Content_Type="a/b", X_Upload_Content_Length=str(len(content))
    )
    check(proxy, store, bucket, proxy.ask("PUT", upload.target, content), content)
    described = proxy.ask("GET", f"/storage/v1/b/{bucket}/o/a%2F%C3%A4").json
    assert (described["metadata"], described["contentType"]) == ({"mine": "1"}, "a/b")
    sent = store.calls(f"/upload/storage/v1/b/{bucket}")[0]["headers"]
    assert sent["x-upload-content-length"] == store.resource(bucket, "a/ä")["size"]


def test_status_counts_what_was_received_whole_block_or_not(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(2 * BLOCK)
    assert upload.status().status == 308 and upload.status().headers["Range"] is None
    upload.put(content[:1000], "bytes 0-999/*")
    assert upload.status().headers["Range"] == "bytes=0-999"
    upload.put(content[1000:300_000], "bytes 1000-299999/*")
    assert upload.status(str(len(content))).headers["Range"] == "bytes=0-299999"
    told = upload.put(content[300_000:], f"bytes 300000-{len(content) - 1}/{len(content)}")
    check(proxy, store, bucket, told, content)
    again = upload.status()
    assert (again.status, again.json["size"]) == (200, str(len(content)))


def test_a_total_that_is_told_only_at_the_end_ends_it(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(BLOCK + 10)
    assert upload.put(content, f"bytes 0-{len(content) - 1}/*").status == 308
    check(proxy, store, bucket, upload.status(str(len(content))), content)


def test_bytes_that_were_received_may_come_again(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(2 * BLOCK)
    upload.put(content[:300_000], "bytes 0-299999/*")
    assert upload.put(content[:1000], "bytes 0-999/*").headers["Range"] == "bytes=0-299999"
    told = upload.put(content[1000:], f"bytes 1000-{len(content) - 1}/{len(content)}")
    check(proxy, store, bucket, told, content)


@pytest.mark.parametrize(
    "told, said",
    [
        ("bytes 5-9/*", "begins at byte 5; 0 bytes were received"),
        ("bytes 0-3/*", "does not fit"),
        ("bytes 0-4/3", "does not fit"),
        ("bytes 4-0/9", "does not fit"),
        ("bytes 0-4", "Failed to parse"),
        ("octets 0-4/5", "Failed to parse"),
        ("bytes */*", "has no body"),
    ],
)
def test_a_range_that_does_not_fit_is_refused_and_the_upload_goes_on(
    proxy: Proxy, store: Store, bucket: str, told: str, said: str
) -> None:
    upload = Upload(proxy, bucket)
    refused = upload.put(b"12345", told)
    assert refused.status == 400 and said in refused.message
    check(proxy, store, bucket, upload.put(b"12345", "bytes 0-4/5"), b"12345")


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (300, "bytes 0-99/100"),
        (300, "bytes 0-99/*"),
        (BLOCK + 1, f"bytes 0-{BLOCK - 1}/{BLOCK}"),
        (BLOCK + 1, f"bytes 0-{BLOCK - 1}/*"),
        (1, "bytes */*"),
        (1, "bytes */0"),
    ],
)
def test_a_body_in_chunks_is_no_longer_than_its_range(
    proxy: Proxy, store: Store, bucket: str, size: int, told: str
) -> None:
    upload, content = Upload(proxy, bucket), data(size)
    refused = upload.put(iter([content]), told)
    assert refused.status == 400 and "longer than its Content-Range" in refused.message
    assert proxy.read(bucket, "a/ä").status == 404
    begun = upload.status()
    kept = int(begun.headers["Range"].partition("-")[2]) + 1 if "Range" in begun.headers else 0
    check(proxy, store, bucket, upload.rest(content, kept), content)


def test_an_upload_has_as_many_bytes_as_it_began_with(proxy: Proxy, store: Store, bucket: str) -> None:
    upload = Upload(proxy, bucket, X_Upload_Content_Length="100")
    for content, told in ((bytes(200), "bytes 0-199/200"), (b"", "bytes */0"), (bytes(50), "bytes 0-49/50")):
        refused = upload.put(content, told)
        assert refused.status == 400 and "began as one of 100 bytes" in refused.message
    check(proxy, store, bucket, upload.put(data(100), "bytes 0-99/100"), data(100))


@given(st.text("bytes*/-0123456789 ", max_size=20), st.one_of(st.none(), st.integers(0, 10)))
@example("bytes 0-9/10", 10)
def test_any_range_is_read_or_refused(text: str, length: int | None) -> None:
    try:
        chunk = parse_chunk(text, length)
    except Refused as refused:
        assert refused.status == 400
        return
    assert chunk.size is None or chunk.size >= 0
    assert chunk.total is None or chunk.query or chunk.size is None or chunk.first + chunk.size <= chunk.total


@pytest.mark.parametrize("taken", [0, 100_000, 256 << 10, (512 << 10) + 1000])
def test_an_upload_goes_on_after_the_store_cut_it(
    proxy: Proxy, store: Store, bucket: str, taken: int
) -> None:
    upload, content = Upload(proxy, bucket), data(4 * BLOCK + 77)
    upload.put(content[:100], "bytes 0-99/*")
    store.faults({"method": "PUT", "path": "upload_id", "take": taken})
    assert upload.put(content[100:], f"bytes 100-{len(content) - 1}/{len(content)}").status == 503
    told = upload.status()
    kept = int(told.headers["Range"].split("-")[1]) + 1
    assert told.status == 308 and kept == max(100, taken // (256 << 10) * BLOCK)
    check(proxy, store, bucket, upload.rest(content, kept), content)


def test_an_upload_goes_on_after_the_client_cut_it(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(3 * BLOCK)
    parts = urlsplit(proxy.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as client:
        head = f"PUT {upload.target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n"
        client.sendall(
            f"{head}Content-Range: bytes 0-{len(content) - 1}/{len(content)}\r\n\r\n".encode()
            + content[:-BLOCK]
        )
        client.shutdown(socket.SHUT_WR)
        while client.recv(4096):
            pass
    told = upload.status()
    kept = int((told.headers["Range"] or "0--1").split("-", 1)[1]) + 1
    assert kept % BLOCK == 0
    check(proxy, store, bucket, upload.rest(content, kept), content)


def test_of_what_was_sent_long_ago_in_one_request_nothing_is_kept() -> None:
    """Else one request of a TB would take a GiB of memory."""
    session = Session("b", "n", "/upload/x", Plaintext(Sealer(bytes(32), bytes(16), Layout()), Checksums()))
    sealer = session.plain.sealer
    session.settle()
    for block in range(1, 6001):
        sealer.index, sealer.crc32c = 4 * block, block
        session.mark()
    assert len(session.marks) <= 4096
    for kept in (5, 1 << 18, 6001 << 18):
        assert not session.go_back(kept)
    assert session.go_back(5999 << 18) and (sealer.crc32c, list(session.marks)) == (5999, [4 * 5999])


def test_an_answer_that_was_lost_is_found_again(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(BLOCK + 5)
    store.faults({"method": "PUT", "path": "upload_id", "cut": 3})
    assert upload.put(content, f"bytes 0-{len(content) - 1}/{len(content)}").status == 503
    check(proxy, store, bucket, upload.status(), content)


LIES = {
    "more than was sent": {"status": 308, "headers": {"Range": "bytes=0-99999999"}},
    "half a segment": {"status": 308, "headers": {"Range": "bytes=0-99"}},
    "done before its end": {"status": 200, "body": "{}"},
    "no range that is one": {"status": 308, "headers": {"Range": "all"}},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_store_that_says_what_cannot_be_is_not_believed(
    proxy: Proxy, store: Store, bucket: str, lie: str
) -> None:
    upload, content = Upload(proxy, bucket), data(2 * BLOCK)
    store.faults({"method": "PUT", "path": "upload_id", **LIES[lie]})
    told = upload.put(content, f"bytes 0-{len(content) - 1}/*")
    assert told.status == 503 and "given up" in told.message
    assert ("was sent 524288" in told.message) == (lie == "more than was sent")
    assert upload.status().status == 410


def test_a_wrong_checksum_leaves_no_object(proxy: Proxy, store: Store, bucket: str) -> None:
    for resource, headers in (({"crc32c": "AAAAAA=="}, {}), ({}, {"X_Goog_Hash": "crc32c=AAAAAA=="})):
        upload = Upload(proxy, bucket, resource)
        told = upload.put(data(BLOCK + 9), f"bytes 0-{BLOCK + 8}/{BLOCK + 9}", **headers)
        assert told.status == 400 and "doesn't match" in told.message
        assert upload.status().status == 410
    assert proxy.read(bucket, "a/ä").status == 404


def md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


def test_an_md5_that_is_told_with_the_last_chunk(
    proxy: Proxy, store: Store, bucket: str, tmp_path: Path
) -> None:
    content, first = data(2 * BLOCK + 9), f"bytes 0-{BLOCK - 1}/*"
    upload = Upload(proxy, bucket)
    upload.put(content[:BLOCK], first)
    last = f"bytes {BLOCK}-{len(content) - 1}/{len(content)}"
    told = upload.put(content[BLOCK:], last, X_Goog_Hash=f"md5={md5(content)}")
    assert told.status == 400 and "--md5" in told.message
    check(proxy, store, bucket, upload.put(content[BLOCK:], last), content)
    with serving(store.url, tmp_path, f"*:file:{proxy.key_file}", md5=True) as thorough:
        for hashed, status in ((md5(content), 200), (md5(b""), 400)):
            upload = Upload(thorough, bucket)
            upload.put(content[:BLOCK], first)
            told = upload.put(content[BLOCK:], last, X_Goog_Hash=f"md5={hashed}")
            assert told.status == status
        upload = Upload(thorough, bucket)
        assert upload.put(content, f"bytes 0-{len(content) - 1}/*").status == 308
        assert upload.put(b"", f"bytes */{len(content)}").json["md5Hash"] == md5(content)
        assert thorough.upload(bucket, "y", content).json["md5Hash"] == md5(content)


def test_preconditions_and_refusals_are_the_stores(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "a/ä", b"1")
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=a/%C3%A4&ifGenerationMatch=0"
    assert proxy.ask("POST", target, b"{}").status == 412
    assert Upload(proxy, bucket, {"metadata": {"slicebench-enc-key": "1"}}).begun.status == 400
    assert Upload(proxy, bucket, {"name": "other"}).begun.status == 400
    upload = Upload(proxy, bucket)
    store.faults({"method": "PUT", "path": "upload_id", "status": 429, "headers": {"Retry-After": "3"}})
    told = upload.put(data(BLOCK), f"bytes 0-{BLOCK - 1}/{BLOCK}")
    assert (told.status, told.headers["Retry-After"]) == (429, "3")
    check(proxy, store, bucket, upload.put(data(BLOCK), f"bytes 0-{BLOCK - 1}/{BLOCK}"), data(BLOCK))


def test_an_upload_can_be_cancelled_and_ids_cannot_be_guessed(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    upload = Upload(proxy, bucket)
    assert proxy.ask("DELETE", upload.target).status == 499
    assert upload.status().status == 410
    known = Upload(proxy, bucket)
    assert "id" in known.target and len(known.target.split("upload_id=")[1]) > 40
    other = store.new_bucket()
    assert proxy.ask("PUT", known.target.replace(bucket, other), b"1").status == 410


def test_an_upload_to_a_place_without_a_key_passes(store: Store, bucket: str, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret:KEY") as proxy:
        upload, content = Upload(proxy, bucket), data(300_000)
        upload.put(content[: 256 << 10], f"bytes 0-{(256 << 10) - 1}/*")
        told = upload.put(content[256 << 10 :], f"bytes {256 << 10}-299999/300000")
        assert told.json["size"] == "300000" and store.raw(bucket, "a/ä") == content


def test_two_clients_on_one_upload_take_turns(proxy: Proxy, store: Store, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(2 * BLOCK + 9)
    whole = f"bytes 0-{len(content) - 1}/{len(content)}"
    with ThreadPoolExecutor(2) as clients:
        told = list(clients.map(lambda _: upload.put(content, whole), range(2)))
    assert [one.status for one in told] == [200, 200]
    assert told[0].json["generation"] == told[1].json["generation"], "two objects were made"
    check(proxy, store, bucket, told[0], content)
    again = Upload(proxy, bucket)
    ahead = again.put(content[BLOCK:], f"bytes {BLOCK}-{len(content) - 1}/{len(content)}")
    assert ahead.status == 400 and "0 bytes were received" in ahead.message


def test_who_comes_amid_another_request_of_an_upload_waits_for_its_end(proxy: Proxy, bucket: str) -> None:
    upload, content = Upload(proxy, bucket), data(2 * BLOCK + 9)
    parts = urlsplit(proxy.url)
    head = f"PUT {upload.target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n"
    with (
        ThreadPoolExecutor(1) as others,
        socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE_S) as writing,
    ):
        writing.sendall(head.encode())
        assert writing.recv(65536).startswith(b"HTTP/1.1 100"), "it has its turn"
        asked = others.submit(upload.status)
        assert not wait([asked], 0.3).done, "it was answered amid the other"
        writing.sendall(content)
        assert writing.recv(65536).startswith(b"HTTP/1.1 200")
        told = asked.result(PATIENCE_S)
    assert (told.status, told.json["size"]) == (200, str(len(content)))
