"""The requests that TensorStore makes, one test each; test_defects.py has what a proxy before this one did wrong.

What is expected is what Cloud Storage answers, not what this proxy happens to.
"""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest

from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, Told, path

CONTENT = random.Random(11).randbytes(200_000)
COMPRESSED = {"accept-encoding": "deflate,gzip,br,zstd"}
MARK = f"&tensorstore={'0f' * 16}"


def write(proxy: Proxy, bucket: str, name: str, content: bytes, query: str = "") -> Told:
    """Writes as TensorStore does."""
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}{query}"
    return proxy.ask("POST", target, content, {"Content-Type": "application/octet-stream"})


def read(proxy: Proxy, bucket: str, name: str, query: str = "", wanted: str = "") -> Told:
    """Reads as TensorStore does."""
    headers = {**COMPRESSED, **({"Range": f"bytes={wanted}"} if wanted else {})}
    return proxy.ask("GET", f"{path(bucket, name)}?alt=media{query}{MARK}", headers=headers)


def test_request_write(proxy: Proxy, store: Store, bucket: str) -> None:
    """One POST of known length, never resumable; `generation` in the answer."""
    told = write(proxy, bucket, "d/a b", CONTENT)
    assert (told.status, told.json["name"], told.json["size"]) == (200, "d/a b", "200000")
    assert told.json["generation"].isdigit() and told.json["bucket"] == bucket
    assert len([call for call in store.calls(bucket) if call["method"] == "POST"]) == 1


def test_request_write_if_generation_match(proxy: Proxy, bucket: str) -> None:
    """ifGenerationMatch=0 makes, =N replaces, and 412 has a meaning: somebody else was first."""
    first = write(proxy, bucket, "manifest.ocdbt", b"1", "&ifGenerationMatch=0")
    assert first.status == 200
    assert write(proxy, bucket, "manifest.ocdbt", b"2", "&ifGenerationMatch=0").status == 412
    generation = first.json["generation"]
    second = write(proxy, bucket, "manifest.ocdbt", b"3", f"&ifGenerationMatch={generation}")
    assert second.status == 200
    assert write(proxy, bucket, "manifest.ocdbt", b"4", f"&ifGenerationMatch={generation}").status == 412
    assert read(proxy, bucket, "manifest.ocdbt").content == b"3"


def test_request_read(proxy: Proxy, store: Store, bucket: str) -> None:
    """X-Goog-Generation with the bytes; nothing compressed is asked of the store, nor answered."""
    generation = write(proxy, bucket, "x", CONTENT).json["generation"]
    told = read(proxy, bucket, "x")
    assert (told.status, told.content) == (200, CONTENT)
    assert told.headers["x-goog-generation"] == generation
    assert told.headers["Content-Encoding"] is None
    asked = [call for call in store.calls(bucket) if "alt=media" in call["target"]]
    assert all(call["headers"]["accept-encoding"] == "identity" for call in asked)


@pytest.mark.parametrize(
    "wanted, content, told",
    [
        ("0-0", CONTENT[:1], "bytes 0-0/200000"),
        ("274-356", CONTENT[274:357], "bytes 274-356/200000"),
        ("65507-65508", CONTENT[65507:65509], "bytes 65507-65508/200000"),
        ("199000-", CONTENT[199_000:], "bytes 199000-199999/200000"),
        ("0-", CONTENT, "bytes 0-199999/200000"),
        ("-12", CONTENT[-12:], "bytes 199988-199999/200000"),
        ("-999999", CONTENT, "bytes 0-199999/200000"),
        ("199999-999999", CONTENT[-1:], "bytes 199999-199999/200000"),
    ],
)
def test_request_read_of_ranges(
    proxy: Proxy, store: Store, bucket: str, wanted: str, content: bytes, told: str
) -> None:
    """a-b, a- and -n: 206, Content-Range with an end that belongs to it; defects: one byte short, 500, 200."""
    write(proxy, bucket, "x", CONTENT)
    found = read(proxy, bucket, "x", wanted=wanted)
    assert (found.status, found.content) == (206, content)
    assert (found.headers["Content-Range"], found.headers["Content-Length"]) == (told, str(len(content)))


def test_request_read_if_generation(proxy: Proxy, bucket: str) -> None:
    """304 and 412 have a meaning, and have no body that somebody would decrypt; defect: 500."""
    generation = write(proxy, bucket, "x", CONTENT).json["generation"]
    same = read(proxy, bucket, "x", f"&ifGenerationNotMatch={generation}")
    assert (same.status, same.content) == (304, b"")
    assert read(proxy, bucket, "x", "&ifGenerationNotMatch=1").content == CONTENT
    assert read(proxy, bucket, "x", f"&ifGenerationMatch={generation}").content == CONTENT
    assert read(proxy, bucket, "x", "&ifGenerationMatch=1").status == 412
    assert read(proxy, bucket, "x", "&ifGenerationMatch=1", "0-5").status == 412


def test_request_read_of_what_is_not_there(proxy: Proxy, bucket: str) -> None:
    """404 means missing; defect: 500, which is asked for again for minutes."""
    told = read(proxy, bucket, "none")
    assert told.status == 404 and told.json["error"]["code"] == 404
    assert read(proxy, bucket, "none", wanted="-5").status == 404


def test_request_stat(proxy: Proxy, bucket: str) -> None:
    """alt=json: what a read of no bytes asks."""
    generation = write(proxy, bucket, "x", CONTENT).json["generation"]
    told = proxy.ask("GET", f"{path(bucket, 'x')}?alt=json{MARK}", headers=COMPRESSED)
    assert (told.json["size"], told.json["generation"]) == ("200000", generation)
    assert isinstance(told.json["size"], str), "sizes are text in the JSON API; defect: a number"
    assert proxy.ask("GET", f"{path(bucket, 'none')}?alt=json").status == 404
    assert proxy.ask("GET", f"{path(bucket, 'x')}?alt=json&ifGenerationNotMatch={generation}").status == 304


def test_request_list(proxy: Proxy, bucket: str) -> None:
    """startOffset, endOffset and pageToken; defect: sizes of what is stored."""
    for name in ("a", "d/1", "d/2", "d/3", "e"):
        write(proxy, bucket, name, CONTENT[:5])
    names, token = [], ""
    while True:
        query = f"startOffset=d%2F&endOffset=d0&maxResults=2&pageToken={token}"
        told = proxy.ask("GET", f"/storage/v1/b/{bucket}/o?{query}").json
        names += [(item["name"], item["size"]) for item in told["items"]]
        assert not any("crc32c" in item or "md5Hash" in item for item in told["items"])
        token = quote(told.get("nextPageToken", ""), safe="")
        if not token:
            break
    assert names == [("d/1", "5"), ("d/2", "5"), ("d/3", "5")]


def test_request_delete(proxy: Proxy, bucket: str) -> None:
    """204, 404 for what is gone, 412 for another generation."""
    generation = write(proxy, bucket, "a/b", CONTENT).json["generation"]
    assert proxy.ask("DELETE", f"{path(bucket, 'a/b')}?ifGenerationMatch=1").status == 412
    assert read(proxy, bucket, "a/b").status == 200
    assert proxy.ask("DELETE", f"{path(bucket, 'a/b')}?ifGenerationMatch={generation}").status == 204
    assert proxy.ask("DELETE", path(bucket, "a/b")).status == 404


def test_request_ocdbt(proxy: Proxy, bucket: str) -> None:
    """A manifest by compare and swap, read again if it is newer; data written once, read by ranges in their middle."""
    first = write(proxy, bucket, "c/manifest.ocdbt", b"m1", "&ifGenerationMatch=0").json["generation"]
    data = f"c/d/{'ab' * 16}"
    assert write(proxy, bucket, data, CONTENT[:357]).status == 200
    assert read(proxy, bucket, data, wanted="274-356").content == CONTENT[274:357]
    assert read(proxy, bucket, "c/manifest.ocdbt", f"&ifGenerationNotMatch={first}").status == 304
    write(proxy, bucket, "c/manifest.ocdbt", b"m2", f"&ifGenerationMatch={first}")
    newer = read(proxy, bucket, "c/manifest.ocdbt", f"&ifGenerationNotMatch={first}")
    assert (newer.status, newer.content) == (200, b"m2")


def test_request_retry(proxy: Proxy, store: Store, bucket: str) -> None:
    """408, 429 and 5xx are asked for again: what is for good is 4xx with a message, what passes is 503."""
    write(proxy, bucket, "x", CONTENT)
    store.spoil(bucket, "x", b"x" * len(store.raw(bucket, "x")))
    bad = read(proxy, bucket, "x")
    assert 400 <= bad.status < 500 and bad.status not in (408, 429) and bad.message
    store.faults({"path": "alt=media", "cut": 10})
    assert read(proxy, bucket, "x").status == 503


def test_request_bypass(proxy: Proxy, store: Store) -> None:
    """gRPC is refused with the way out; defect: it was not seen at all."""
    before = len(store.calls())
    told = proxy.ask(
        "POST", "/google.storage.v2.Storage/WriteObject", b"", {"Content-Type": "application/grpc"}
    )
    assert told.status == 400 and "TENSORSTORE_GCS_BACKEND=gcs" in told.message
    assert len(store.calls()) == before
