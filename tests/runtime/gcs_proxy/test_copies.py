"""Copies, rewrites and batches: keys are wrapped anew for the place, and what cannot be done is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runtime.gcs_proxy import envelope
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, decrypted, path, serving

CONTENT = random.Random(8).randbytes(150_000)
JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("verb", ["copyTo", "rewriteTo"])
def test_a_copy_has_the_same_bytes_and_a_wrap_of_its_own(
    proxy: Proxy, store: Store, bucket: str, verb: str
) -> None:
    other = store.new_bucket()
    proxy.upload(bucket, "a/b", CONTENT)
    proxy.ask("PATCH", path(bucket, "a/b"), '{"metadata": {"mine": "1"}, "cacheControl": "no-store"}', JSON)
    told = proxy.ask(
        "POST", f"{path(bucket, 'a/b')}/{verb}{path(other, 'c/d').removeprefix('/storage/v1')}", b""
    )
    assert told.status == 200
    resource = told.json if verb == "copyTo" else told.json["resource"]
    assert (resource["size"], resource["metadata"], resource["cacheControl"]) == (
        "150000",
        {"mine": "1"},
        "no-store",
    )
    assert resource["contentType"] == "text/x" and "crc32c" not in resource
    if verb == "rewriteTo":
        assert (told.json["objectSize"], told.json["totalBytesRewritten"], told.json["done"]) == (
            "150000",
            "150000",
            True,
        )
    # What was wrapped anew is of one generation: another one must not be copied in its place.
    generation = store.resource(bucket, "a/b")["generation"]
    assert f"sourceGeneration={generation}" in store.calls(f"/{verb}/b/{other}")[-1]["target"]
    assert store.raw(other, "c/d") == store.raw(bucket, "a/b")
    assert decrypted(proxy, store.raw(other, "c/d"), store.resource(other, "c/d")) == CONTENT
    assert proxy.read(other, "c/d", "-7").content == CONTENT[-7:]
    first, second = store.resource(bucket, "a/b")["metadata"], store.resource(other, "c/d")["metadata"]
    assert first["slicebench-enc-wrapped-key"] != second["slicebench-enc-wrapped-key"]


def test_a_copy_may_have_metadata_of_its_own(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "a", CONTENT)
    target = f"{path(bucket, 'a')}/copyTo/b/{bucket}/o/b"
    told = proxy.ask("POST", target, '{"contentType": "x/y", "metadata": {"other": "2"}}', JSON).json
    assert (told["contentType"], told["metadata"]) == ("x/y", {"other": "2"})
    assert proxy.read(bucket, "b").content == CONTENT
    refused = proxy.ask("POST", target, '{"metadata": {"slicebench-enc-key": "2"}}', JSON)
    assert refused.status == 400


def test_a_rewrite_in_several_calls_says_the_same_in_each(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "in steps", CONTENT)
    target = f"{path(bucket, 'in steps')}/rewriteTo/b/{bucket}/o/b"
    first = proxy.ask("POST", target, b"").json
    assert (first["done"], first["objectSize"]) == (False, "150000")
    assert 70_000 < int(first["totalBytesRewritten"]) < 80_000
    second = proxy.ask("POST", f"{target}?rewriteToken={first['rewriteToken']}", b"")
    assert second.status == 200 and second.json["done"], second.content
    assert proxy.read(bucket, "b").content == CONTENT
    for token in ("x", "W10=", "WzEsMl0="):
        assert proxy.ask("POST", f"{target}?rewriteToken={token}", b"").status == 400


def test_a_copy_over_the_border_of_a_key_map_is_refused(store: Store, bucket: str, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret:KEY") as proxy:
        proxy.upload(bucket, "secret/a", CONTENT)
        proxy.upload(bucket, "open", CONTENT)
        out = proxy.ask("POST", f"{path(bucket, 'secret/a')}/copyTo/b/{bucket}/o/x", b"")
        assert out.status == 400 and "could not be read" in out.message
        into = proxy.ask("POST", f"{path(bucket, 'open')}/rewriteTo/b/{bucket}/o/secret", b"")
        assert into.status == 400 and "is not encrypted" in into.message
        assert proxy.ask("POST", f"{path(bucket, 'open')}/copyTo/b/{bucket}/o/x", b"").status == 200
        assert store.raw(bucket, "x") == CONTENT


def test_a_copy_of_nothing_or_of_what_is_not_ours(
    proxy: Proxy, store: Store, bucket: str, tmp_path: Path
) -> None:
    assert proxy.ask("POST", f"{path(bucket, 'none')}/copyTo/b/{bucket}/o/x", b"").status == 404
    proxy.upload(bucket, "a", CONTENT)
    store.patch(bucket, "a", {"metadata": None})
    assert proxy.ask("POST", f"{path(bucket, 'a')}/copyTo/b/{bucket}/o/x", b"").status == 422


def batch(*requests: str, kind: str = "application/http") -> bytes:
    parts = [
        f"--b\r\nContent-Type: {kind}\r\nContent-ID: <n+{i}>\r\n\r\n{one}\r\n"
        for i, one in enumerate(requests)
    ]
    return "".join(parts).encode() + b"--b--\r\n"


MIXED = {"Content-Type": "multipart/mixed; boundary=b"}


def test_a_batch_is_answered_part_by_part_in_its_order(proxy: Proxy, store: Store, bucket: str) -> None:
    for name in ("a", "b", "c/d"):
        proxy.upload(bucket, name, CONTENT)
    told = proxy.ask(
        "POST",
        "/batch/storage/v1",
        batch(
            f"DELETE {path(bucket, 'a')} HTTP/1.1\r\n\r\n",
            f"GET {path(bucket, 'b')}\r\nAccept: application/json\r\n\r\n",
            f"DELETE /storage/v1/b/{bucket}/o/c/d HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            f"DELETE {path(bucket, 'none')}\r\nX: y\r\n\r\n\r\n",
            f'PATCH {proxy.url}{path(bucket, "b")} HTTP/1.1\r\nX: y\r\n\r\n{{"metadata": {{"mine": "1"}}}}',
            f'PATCH {path(bucket, "b")}\r\n\r\n{{"metadata": {{"slicebench-enc-key": "1"}}}}',
        ),
        {**MIXED, "Authorization": "Bearer t"},
    )
    assert told.status == 200
    boundary = told.headers["Content-Type"].split("boundary=")[1]
    parts = told.content.decode().split(f"--{boundary}")[1:-1]
    assert [part.split("Content-ID: <response-n+")[1][0] for part in parts] == list("012345")
    assert [part.split("HTTP/1.1 ")[1][:3] for part in parts] == ["204", "200", "204", "404", "200", "400"]
    assert '"size": "150000"' in parts[1] and '"mine": "1"' in parts[4]
    assert [item["name"] for item in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]] == ["b"]
    assert {call["headers"].get("authorization") for call in store.calls(f"{bucket}/o/c%2Fd")[-1:]} == {
        "Bearer t"
    }


@pytest.mark.parametrize(
    "body, headers, said",
    [
        (batch("GET /storage/v1/b/BUCKET/o/x?alt=media\r\n\r\n"), MIXED, "GET media may not be in it"),
        (batch("POST /upload/storage/v1/b/BUCKET/o?name=x\r\n\r\n"), MIXED, "POST upload may not be in it"),
        (
            batch("POST /batch/storage/v1\r\n\r\n", "DELETE /storage/v1/b/BUCKET/o/x\r\n\r\n"),
            MIXED,
            "may not be in it",
        ),
        (batch("GET http://x/\r\n\r\n"), MIXED, "to where the batch goes"),
        (batch("PUT /BUCKET%2Fx\r\n\r\n12345"), MIXED, "no bucket is called"),
        (batch("DELETE /plain/%2E./BUCKET/x\r\n\r\n"), MIXED, "has dots"),
        (batch("GET\r\n\r\n"), MIXED, "with one request"),
        (batch("GET /storage/v1/b/BUCKET/o/x\r\n\r\n", kind="text/plain"), MIXED, "is application/http"),
        (b"--b--\r\n", MIXED, "1 to 1000"),
        (b"--b\r\n", MIXED, "does not end"),
        (b"", {"Content-Type": "application/json"}, "multipart/mixed"),
    ],
)
def test_other_batches_are_refused_whole(
    proxy: Proxy, store: Store, bucket: str, body: bytes, headers: dict[str, str], said: str
) -> None:
    told = proxy.ask("POST", "/batch/storage/v1", body.replace(b"BUCKET", bucket.encode()), headers)
    assert told.status == 400 and said in told.message
    assert not store.calls(bucket)


def test_a_batch_about_places_without_keys_passes(store: Store, bucket: str, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, "other-bucket:KEY") as proxy:
        proxy.upload(bucket, "a", CONTENT)
        told = proxy.ask(
            "POST", "/batch/storage/v1", batch(f"DELETE {path(bucket, 'a')} HTTP/1.1\r\n\r\n"), MIXED
        )
        assert told.status == 200 and b"HTTP/1.1 204" in told.content
        assert envelope.PREFIX.encode() not in told.content
        assert proxy.read(bucket, "a").status == 404
