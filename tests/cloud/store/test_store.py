"""The stand-in of Cloud Storage is right where others are wrong: 304, conditions of deletes, uploads, batches."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.cloud.store.running import Store

KIB_256 = 256 << 10


def ask(
    store: Store, method: str, target: str, body: bytes = b"", **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(store.url).netloc, timeout=60)
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, target, body, told)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response.headers, content


def put(store: Store, bucket: str, content: bytes, query: str = "") -> Any:
    target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x{query}"
    return json.loads(ask(store, "POST", target, content)[2])


def test_reads_and_deletes_heed_their_conditions(store: Store) -> None:
    bucket = store.new_bucket()
    old = put(store, bucket, b"1")["generation"]
    new = put(store, bucket, b"2", f"&ifGenerationMatch={old}")["generation"]
    path = f"/storage/v1/b/{bucket}/o/x"
    assert ask(store, "GET", f"{path}?alt=media&ifGenerationNotMatch={new}")[0::2] == (304, b"")
    assert ask(store, "GET", f"{path}?alt=media&ifGenerationNotMatch={old}")[0::2] == (200, b"2")
    assert ask(store, "GET", f"{path}?alt=media&ifGenerationMatch={old}")[0] == 412
    assert ask(store, "GET", f"{path}?ifMetagenerationNotMatch=1")[0] == 304
    assert ask(store, "DELETE", f"{path}?ifGenerationMatch={old}")[0] == 412
    assert ask(store, "DELETE", f"{path}?ifGenerationMatch={new}")[0] == 204
    assert ask(store, "DELETE", path)[0] == 404
    assert "error" in put(store, bucket, b"3", f"&ifGenerationMatch={new}")


def test_an_upload_keeps_multiples_and_says_so(store: Store) -> None:
    bucket = store.new_bucket()
    begin = f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&name=x"
    place = ask(store, "POST", begin, b"{}")[1]["Location"].removeprefix(store.url)
    status, headers, _ = ask(store, "PUT", place, b"", Content_Range="bytes */*")
    assert (status, headers["Range"]) == (308, None)
    content = bytes(KIB_256 + 1000)
    status, headers, _ = ask(store, "PUT", place, content, Content_Range=f"bytes 0-{len(content) - 1}/*")
    assert (status, headers["Range"]) == (308, f"bytes=0-{KIB_256 - 1}")
    assert ask(store, "PUT", place, b"", Content_Range="bytes */*")[1]["Range"] == f"bytes=0-{KIB_256 - 1}"
    rest = f"bytes {KIB_256}-{KIB_256 + 4}/{KIB_256 + 5}"
    status, _, told = ask(store, "PUT", place, b"12345", Content_Range=rest)
    assert (status, json.loads(told)["size"]) == (200, str(KIB_256 + 5))
    assert ask(store, "PUT", place, b"", Content_Range="bytes */*")[0] == 200
    assert store.raw(bucket, "x") == bytes(KIB_256) + b"12345"


def test_a_batch_is_answered_part_by_part(store: Store) -> None:
    bucket = store.new_bucket()
    put(store, bucket, b"1")
    parts = [f"DELETE /storage/v1/b/{bucket}/o/{name} HTTP/1.1" for name in ("x", "none")]
    body = "".join(
        f"--b\r\nContent-Type: application/http\r\nContent-ID: <{n}>\r\n\r\n{part}\r\n\r\n\r\n"
        for n, part in enumerate(parts)
    )
    told = ask(
        store,
        "POST",
        "/batch/storage/v1",
        body.encode() + b"--b--",
        Content_Type="multipart/mixed; boundary=b",
    )
    assert told[0] == 200 and told[2].index(b"response-0") < told[2].index(b"HTTP/1.1 204")
    assert told[2].index(b"response-1") < told[2].index(b"HTTP/1.1 404")
