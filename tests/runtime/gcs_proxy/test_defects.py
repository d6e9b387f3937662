"""The defects that a proxy before this one was found with, one test each: what is expected is what Cloud Storage does.

Those of ranges and of answers that are not 2xx are in test_conformance.py, with the requests that met them.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cloud import kms as kms_stand_in
from tests.cloud.authority import Authority
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, path, serving
from tests.runtime.gcs_proxy.test_conformance import CONTENT, read, write
from tests.runtime.gcs_proxy.test_whole import crc32c

S = 65536
KEY = "projects/p/locations/global/keyRings/r/cryptoKeys/k"


def test_defect_whole_object_fetched_for_a_range(proxy: Proxy, store: Store, bucket: str) -> None:
    write(proxy, bucket, "x", CONTENT)
    read(proxy, bucket, "x", wanted="70000-70001")
    (asked,) = [call for call in store.calls(bucket) if "alt=media" in call["target"]]
    assert asked["headers"]["range"] == f"bytes={S}-{2 * S - 1}"


@pytest.mark.parametrize("how", ["media", "multipart", "resumable"])
def test_defect_preconditions_of_uploads_lost(proxy: Proxy, bucket: str, how: str) -> None:
    write(proxy, bucket, "x", b"first")
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType={how}&name=x&ifGenerationMatch=0"
    bodies = {
        "media": (b"second", "text/plain"),
        "multipart": (
            b"--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b\r\nContent-Type: a/b\r\n\r\nsecond\r\n--b--",
            "multipart/related; boundary=b",
        ),
        "resumable": (b"{}", "application/json"),
    }
    body, kind = bodies[how]
    assert proxy.ask("POST", target, body, {"Content-Type": kind}).status == 412
    assert read(proxy, bucket, "x").content == b"first"


def test_defect_empty_body_uploaded_where_encryption_fails(store: Store, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "kms").mkdir()
    with (
        kms_stand_in.running(tmp_path / "kms") as kms,
        serving(store.url, tmp_path, f"*:{KEY}", kms=kms.endpoint) as proxy,
    ):
        kms.set(denied=[KEY])
        begin = f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x"
        for told in (
            write(proxy, bucket, "x", CONTENT),
            proxy.ask("POST", begin, b"{}"),
            proxy.ask("PUT", f"/{bucket}/x", CONTENT),
        ):
            assert told.status == 403
    assert not store.calls(bucket), "the store was sent something"


def test_defect_sizes_in_metadata(proxy: Proxy, store: Store, bucket: str) -> None:
    """Text, also where an object has no metadata of its own, and of objects that are not encrypted as they are."""
    write(proxy, bucket, "x", CONTENT)
    told = proxy.ask("GET", path(bucket, "x")).json
    assert told["size"] == "200000" and "metadata" not in told
    changed = proxy.ask("PATCH", path(bucket, "x"), b'{"metadata": {"mine": "1"}}').json
    assert (changed["size"], changed["metadata"]) == ("200000", {"mine": "1"})
    assert int(store.resource(bucket, "x")["size"]) > 200_000


def test_defect_checksums_that_are_not_an_md5(proxy: Proxy, bucket: str) -> None:
    """X-Goog-Hash may hold a CRC32C alone, or both; an MD5 that is right is answered."""
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x"
    for told in (f"crc32c={crc32c(b'12345')}", f"crc32c={crc32c(b'12345')},md5=gnzLDuqKcGxMNKFokfhOew=="):
        answer = proxy.ask("POST", target, b"12345", {"X-Goog-Hash": told})
        assert (answer.status, answer.json["crc32c"]) == (200, crc32c(b"12345"))
    assert answer.json["md5Hash"] == "gnzLDuqKcGxMNKFokfhOew=="
    assert proxy.ask("POST", target, b"12346", {"X-Goog-Hash": told}).status == 400


@pytest.mark.parametrize(
    "name",
    [
        "ä/ö ü",
        "a%2Fb",
        "%",
        "%25",
        "a+b",
        "a b",
        "a?b#c&d=e",
        "日本語/🙂",
        "..a/.b",
        "x" * 1000,
        "a\tb",
        "a//b/",
        "'\"<>\\",
    ],
)
def test_defect_names_and_lengths_in_letters(proxy: Proxy, store: Store, bucket: str, name: str) -> None:
    """A length is one of bytes, and a name is the same in uploads of all kinds, in wraps and in lists."""
    content = f"{name} ä日🙂".encode()
    assert write(proxy, bucket, name, content).json["size"] == str(len(content))
    assert read(proxy, bucket, name).content == content
    begin = proxy.ask(
        "POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable", json.dumps({"name": name}).encode()
    )
    place = begin.headers["Location"].removeprefix(proxy.url)
    assert proxy.ask("PUT", place, content * 2).json["name"] == name
    assert read(proxy, bucket, name, wanted="3-7").content == content[3:8]
    listed = proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]
    assert [(one["name"], one["size"]) for one in listed] == [(name, str(2 * len(content)))]
    assert proxy.ask("DELETE", path(bucket, name)).status == 204


def test_defect_prefixes_not_told_apart(store: Store, bucket: str, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret/:KEY") as proxy:
        for name in ("secret/x", "open/x", "secret"):
            assert write(proxy, bucket, name, b"12345").status == 200
            assert read(proxy, bucket, name).content == b"12345"
        listed = {one["name"]: one for one in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]}
    assert [store.raw(bucket, name) == b"12345" for name in ("secret/x", "open/x", "secret")] == [
        False,
        True,
        True,
    ]
    assert {one["size"] for one in listed.values()} == {"5"}


def test_defect_uploads_in_several_chunks_and_large_ones(proxy: Proxy, store: Store, bucket: str) -> None:
    """As gcloud sends what is large: a session, chunks of many MiB, a status in between."""
    content, step = CONTENT * 60, 4 << 20
    begin = proxy.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x", b"{}")
    place = begin.headers["Location"].removeprefix(proxy.url)
    total, kept = len(content), 0
    while kept + step < total:
        told = proxy.ask(
            "PUT", place, content[kept : kept + step], {"Content-Range": f"bytes {kept}-{kept + step - 1}/*"}
        )
        assert told.status == 308
        told = proxy.ask("PUT", place, b"", {"Content-Range": "bytes */*"})
        kept = int(told.headers["Range"].partition("-")[2]) + 1
    done = proxy.ask("PUT", place, content[kept:], {"Content-Range": f"bytes {kept}-{total - 1}/{total}"})
    assert (done.status, done.json["size"], done.json["crc32c"]) == (200, str(total), crc32c(content))
    assert read(proxy, bucket, "x", wanted=f"{total - 5}-").content == content[-5:]


def test_defect_memory_of_whole_objects(store: Store, bucket: str, tmp_path: Path) -> None:
    """An object four times as large as all buffers goes up and down."""
    content = CONTENT * 84
    with serving(store.url, tmp_path, buffer_mib=4) as proxy:
        assert write(proxy, bucket, "x", content).json["size"] == str(len(content))
        assert read(proxy, bucket, "x").content == content


@contextmanager
def store_of_anybody(folder: Path) -> Iterator[str]:
    """A store that a certificate of an authority that nobody knows vouches for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)

    Authority().furnish(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
    assert not asked


def test_defect_stores_certificate_not_verified(tmp_path: Path) -> None:
    with store_of_anybody(tmp_path) as url, serving(url, tmp_path) as proxy:
        told = write(proxy, "bkt", "x", b"12345")
        assert told.status == 503 and re.search("not to be trusted.*certificate verify failed", told.message)
