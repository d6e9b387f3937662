"""The reverse face: objects uploaded in one request, read whole and in ranges, described, listed, changed, deleted."""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from runtime.gcs_proxy import envelope
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, decrypted, path, serving

C = 65508
SIZES = [0, 1, C - 12, C - 1, C, 3 * C, 20 * C + 5]
LARGE = random.Random(7).randbytes(5 * C + 1000)


def data(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def crc32c(content: bytes) -> str:
    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("size", SIZES)
def test_what_is_uploaded_lies_encrypted_and_is_read_back(
    proxy: Proxy, store: Store, bucket: str, size: int
) -> None:
    content = data(size)
    told = proxy.upload(bucket, "a/b c%.ä", content)
    assert told.status == 200
    assert (told.json["size"], told.json["crc32c"], told.json["name"]) == (
        str(size),
        crc32c(content),
        "a/b c%.ä",
    )
    assert "md5Hash" not in told.json and "metadata" not in told.json
    sealed, resource = store.raw(bucket, "a/b c%.ä"), store.resource(bucket, "a/b c%.ä")
    assert len(sealed) > size and (size < 16 or content[:16] not in sealed)
    assert decrypted(proxy, sealed, resource) == content
    read = proxy.read(bucket, "a/b c%.ä")
    assert (read.status, read.content) == (200, content)
    assert read.headers["Content-Length"] == str(size) == read.headers["X-Goog-Stored-Content-Length"]
    assert read.headers["Content-Type"] == "text/x"
    assert read.headers["X-Goog-Generation"] == told.json["generation"] == resource["generation"]
    assert read.headers["X-Goog-Hash"] is None
    assert proxy.ask("HEAD", f"{path(bucket, 'a/b c%.ä')}?alt=media").headers["Content-Length"] == str(size)


def test_a_body_in_chunks_is_taken_too(proxy: Proxy, store: Store, bucket: str) -> None:
    pieces = [LARGE[:1], LARGE[1:70_000], LARGE[70_000:]]
    assert proxy.upload(bucket, "x", iter(pieces)).json["size"] == str(len(LARGE))
    assert proxy.read(bucket, "x").content == LARGE


@pytest.fixture(scope="module")
def large(shared_proxy: Proxy, store_server: Store) -> str:
    bucket = store_server.new_bucket()
    assert shared_proxy.upload(bucket, "x", LARGE).status == 200
    return bucket


RANGES = [
    "0-0", "274-356", f"{C - 1}-{C}", f"{C}-{2 * C - 1}", f"{C + 5}-{4 * C}", "5-", f"{len(LARGE) - 1}-", "-1", "-83",
    f"-{C + 1}", f"-{len(LARGE) + 5}", f"0-{len(LARGE) + 99}", "0-99999999999",
    "5-18446744073709551615", "-18446744073709551615",
]  # fmt: skip


@pytest.mark.parametrize("wanted", RANGES)
def test_a_range_is_answered_as_by_the_service(proxy: Proxy, large: str, wanted: str) -> None:
    first, _, last = wanted.partition("-")
    begin = int(first) if first else max(0, len(LARGE) - int(last))
    end = min(int(last) if first and last else len(LARGE) - 1, len(LARGE) - 1)
    told = proxy.read(large, "x", wanted)
    assert told.status == 206
    assert told.content == LARGE[begin : end + 1]
    assert told.headers["Content-Range"] == f"bytes {begin}-{end}/{len(LARGE)}"
    assert told.headers["Content-Length"] == str(end - begin + 1)


@pytest.mark.parametrize(
    "wanted",
    [f"{len(LARGE)}-", f"{len(LARGE) + 5}-{len(LARGE) + 9}", "99999999-", "99999999999999999999-", "-0"],
)
def test_a_range_that_there_is_not_is_answered_416(proxy: Proxy, large: str, wanted: str) -> None:
    told = proxy.read(large, "x", wanted)
    assert told.status == 416
    assert told.headers["Content-Range"] == f"bytes */{len(LARGE)}"


@pytest.mark.parametrize("wanted", ["5-4", "a-b", "0-1,3-4"])
def test_what_is_no_range_is_ignored(proxy: Proxy, large: str, wanted: str) -> None:
    assert proxy.read(large, "x", wanted).content == LARGE


def test_a_range_of_what_may_have_changed_is_answered_with_the_whole(proxy: Proxy, large: str) -> None:
    """If-Range: a client that has the beginning of another generation must not put the two together."""
    told = proxy.ask(
        "GET", f"{path(large, 'x')}?alt=media", headers={"Range": "bytes=5-9", "If-Range": '"another"'}
    )
    assert (told.status, told.content) == (200, LARGE)


def test_of_an_object_of_nothing_there_is_no_range(proxy: Proxy, bucket: str) -> None:
    proxy.upload(bucket, "x", b"")
    assert proxy.read(bucket, "x", "0-").status == proxy.read(bucket, "x", "-5").status == 416


def test_only_the_segments_that_are_needed_are_fetched(proxy: Proxy, store: Store, large: str) -> None:
    before = len(store.calls(f"{large}/o/x?"))
    proxy.read(large, "x", f"{2 * C + 5}-{2 * C + 9}")
    proxy.read(large, "x", f"{2 * C + 5}-{3 * C}")
    calls = [call for call in store.calls(f"{large}/o/x?")[before:] if "alt=media" in call["target"]]
    assert [call["headers"]["range"] for call in calls] == ["bytes=131072-196607", "bytes=131072-262143"]
    assert {call["headers"]["accept-encoding"] for call in calls} == {"identity"}


def test_the_size_in_the_store_is_not_what_metadata_and_lists_tell(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    for number in range(3):
        proxy.upload(bucket, f"d/{number}", data(number * 70_000))
    told = proxy.ask("GET", path(bucket, "d/2")).json
    assert told["size"] == "140000" and int(store.resource(bucket, "d/2")["size"]) > 140_000
    assert not {"md5Hash", "crc32c", "metadata"} & told.keys()
    assert told["mediaLink"].startswith(f"{proxy.url}/download/") and told["selfLink"].startswith(proxy.url)
    listed = proxy.ask("GET", f"/storage/v1/b/{bucket}/o?prefix=d/&maxResults=2").json
    assert [(item["name"], item["size"]) for item in listed["items"]] == [("d/0", "0"), ("d/1", "70000")]
    assert not any({"md5Hash", "crc32c", "metadata"} & item.keys() for item in listed["items"])
    rest = proxy.ask(
        "GET", f"/storage/v1/b/{bucket}/o?pageToken={listed['nextPageToken']}&startOffset=d/&endOffset=e"
    ).json
    assert [item["size"] for item in rest["items"]] == ["140000"]
    assert proxy.ask("GET", f"/storage/v1/b/{bucket}/o?delimiter=/").json["prefixes"] == ["d/"]
    assert proxy.ask("GET", f"/storage/v1/b/{bucket}/o?prefix=none").json == {"kind": "storage#objects"}


def test_links_lead_to_the_proxy_also_of_what_is_not_encrypted(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    """Who followed one to the store would read there what the proxy refuses: some clients read by links."""
    for name in ("planted", "spoilt"):
        proxy.upload(bucket, name, b"12345")
    store.patch(bucket, "planted", {"metadata": None})
    store.patch(bucket, "spoilt", {"metadata": {"slicebench-enc-version": "9"}})
    told = proxy.ask("GET", path(bucket, "planted")).json
    listed = proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]
    assert len(listed) == 2
    for one in (told, *listed):
        for link in (one["selfLink"], one["mediaLink"]):
            assert link.startswith(f"{proxy.url}/")
        assert proxy.ask("GET", one["mediaLink"].removeprefix(proxy.url)).status == 422


def test_who_asks_and_who_pays_is_said_with_what_else_is_asked(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    proxy.upload(bucket, "x", LARGE)
    who = "access_token=t%26generation%3D5&userProject=a%26b"
    assert proxy.read(bucket, "x", "5-9", f"&{who}").content == LARGE[5:10]
    for call in (call["target"] for call in store.calls(f"{bucket}/o/x?")):
        assert "access_token=t%26generation%3D5" in call and "userProject=a%26b" in call
    signed = proxy.ask("GET", f"/{bucket}/x?X-Goog-Signature=00")
    assert signed.status == 400 and b"send a token" in signed.content


@pytest.mark.parametrize("fields", ["size", "name,size", "size,metadata"])
def test_a_partial_answer_has_the_plaintexts_size_too(proxy: Proxy, bucket: str, fields: str) -> None:
    proxy.upload(bucket, "x", b"12345")
    told = proxy.ask("GET", f"{path(bucket, 'x')}?fields={fields}").json
    assert told["size"] == "5" and "metadata" not in told
    listed = proxy.ask("GET", f"/storage/v1/b/{bucket}/o?fields=items({fields})").json
    assert listed["items"][0]["size"] == "5"


def test_preconditions_hold_and_their_answers_are_the_stores(proxy: Proxy, store: Store, bucket: str) -> None:
    first = proxy.upload(bucket, "m", b"1", "&ifGenerationMatch=0").json["generation"]
    lost = proxy.upload(bucket, "m", b"2", "&ifGenerationMatch=0")
    assert lost.status == 412 and lost.json["error"]["errors"][0]["reason"] == "conditionNotMet"
    second = proxy.upload(bucket, "m", b"3", f"&ifGenerationMatch={first}").json["generation"]
    assert proxy.read(bucket, "m").content == b"3"
    same = proxy.read(bucket, "m", query=f"&ifGenerationNotMatch={second}")
    assert (same.status, same.content) == (304, b"")
    assert proxy.read(bucket, "m", query=f"&ifGenerationNotMatch={first}").content == b"3"
    assert proxy.read(bucket, "m", query=f"&ifGenerationMatch={first}").status == 412
    assert proxy.ask("DELETE", f"{path(bucket, 'm')}?ifGenerationMatch={first}").status == 412
    assert proxy.ask("DELETE", f"{path(bucket, 'm')}?ifGenerationMatch={second}").status == 204
    gone = proxy.read(bucket, "m")
    assert (gone.status, gone.json["error"]["errors"][0]["reason"]) == (404, "notFound")


def test_a_newer_generation_is_found_though_an_older_one_is_known(proxy: Proxy, bucket: str) -> None:
    for content in (b"one", data(200_000), b"", data(3)):
        proxy.upload(bucket, "x", content)
        assert proxy.read(bucket, "x").content == content
        assert proxy.read(bucket, "x", "-2").content == content[-2:] or not content


def test_a_generation_that_is_asked_for_is_answered_and_no_other(
    proxy: Proxy, store: Store, bucket: str
) -> None:
    """Of its bytes, too, the store is asked by generation: where it keeps older ones, others would be the newest's."""
    first, second = (proxy.upload(bucket, "x", data(size)).json["generation"] for size in (70_000, 5))
    for wanted, content in ((None, data(5)), ("1-2", data(5)[1:3]), ("-2", data(5)[-2:])):
        assert proxy.read(bucket, "x", wanted, f"&generation={second}").content == content
        assert proxy.read(bucket, "x", wanted, f"&generation={first}").status == 404, "it is gone"
    asked = [call["target"] for call in store.calls(bucket) if "alt=media" in call["target"]]
    assert asked and all("generation=" in target for target in asked)


@pytest.mark.parametrize(
    "headers, told",
    [
        ({"X-Goog-Hash": "crc32c=AAAAAA=="}, "doesn't match calculated CRC32C"),
        ({"X-Goog-Hash": "md5=" + base64.b64encode(bytes(16)).decode()}, "doesn't match calculated MD5"),
        ({"Content-MD5": base64.b64encode(bytes(16)).decode()}, "doesn't match calculated MD5"),
        ({"X-Goog-Hash": "crc32c=x"}, "Invalid crc32c"),
    ],
)
def test_a_wrong_checksum_is_refused_and_nothing_is_kept(
    proxy: Proxy, bucket: str, headers: dict[str, str], told: str
) -> None:
    answer = proxy.upload(bucket, "x", LARGE, **headers)
    assert answer.status == 400 and told in answer.message
    assert proxy.read(bucket, "x").status == 404


def test_a_right_checksum_is_not_sent_on(proxy: Proxy, store: Store, bucket: str) -> None:
    md5 = base64.b64encode(hashlib.md5(LARGE).digest()).decode()
    answer = proxy.upload(bucket, "x", LARGE, **{"X-Goog-Hash": f"crc32c={crc32c(LARGE)},md5={md5}"})
    assert (answer.status, answer.json["md5Hash"]) == (200, md5)
    sent = store.calls(f"upload/storage/v1/b/{bucket}")[-1]
    assert "x-goog-hash" not in sent["headers"] and md5 not in str(sent)


def put(proxy: Proxy, method: str, bucket: str, body: str) -> Any:
    return proxy.ask(method, path(bucket, "x"), body, {"Content-Type": "application/json"})


def test_changes_of_metadata_keep_ours_and_show_the_clients(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "x", b"12345")
    told = put(proxy, "PATCH", bucket, '{"metadata": {"mine": "1"}, "contentType": "a/b"}').json
    assert (told["metadata"], told["contentType"], told["size"]) == ({"mine": "1"}, "a/b", "5")
    assert put(proxy, "PUT", bucket, '{"metadata": {"other": "2"}}').json["metadata"] == {"other": "2"}
    assert "metadata" not in put(proxy, "PATCH", bucket, '{"metadata": null}').json
    assert "metadata" not in put(proxy, "PUT", bucket, "{}").json
    assert proxy.read(bucket, "x").content == b"12345"
    refused = put(proxy, "PATCH", bucket, '{"metadata": {"Slicebench-Enc-Key": "x"}}')
    assert refused.status == 400 and "may not be named" in refused.message
    assert put(proxy, "PATCH", bucket, "no json").status == 400


@pytest.mark.parametrize(
    "method, body", [("PUT", '{"metadata": {"mine": "2"}}'), ("PATCH", '{"metadata": null}')]
)
def test_a_change_of_all_metadata_is_of_the_object_that_was_looked_at(
    proxy: Proxy, store: Store, bucket: str, method: str, body: str
) -> None:
    first = proxy.upload(bucket, "x", b"12345").json["generation"]
    assert put(proxy, method, bucket, body).status == 200
    (told,) = [call["target"] for call in store.calls(bucket) if call["method"] == method]
    assert f"ifGenerationMatch={first}" in told and "ifMetagenerationMatch=1" in told
    store.faults({"method": method, "path": bucket, "status": 412, "times": 2})
    assert put(proxy, method, bucket, body).status == 200, (
        "the client set no condition: it is looked at again"
    )
    assert proxy.read(bucket, "x").content == b"12345"
    own = f"{path(bucket, 'x')}?ifMetagenerationMatch=1"
    assert proxy.ask(method, own, body).status == 412


def test_places_without_a_key_pass_untouched(store: Store, bucket: str, tmp_path: Path) -> None:
    with serving(store.url, tmp_path, f"{bucket}/secret/:KEY") as proxy:
        answer = proxy.upload(bucket, "open", LARGE, **{"X-Goog-Hash": f"crc32c={crc32c(LARGE)}"})
        assert (answer.status, answer.json["size"]) == (200, str(len(LARGE)))
        assert answer.json["md5Hash"] and store.raw(bucket, "open") == LARGE
        assert proxy.read(bucket, "open").content == LARGE
        assert proxy.read(bucket, "open", "5-9").content == LARGE[5:10]
        assert proxy.upload(bucket, "secret/x", b"12345").status == 200
        assert envelope.is_encrypted(store.resource(bucket, "secret/x")["metadata"])
        sizes = {
            item["name"]: item["size"] for item in proxy.ask("GET", f"/storage/v1/b/{bucket}/o").json["items"]
        }
        assert sizes == {"open": str(len(LARGE)), "secret/x": "5"}
        other = store.new_bucket()
        assert proxy.upload(other, "x", iter([b"1", b"2"])).status == 200
        assert store.raw(other, "x") == b"12"
        assert proxy.ask("GET", f"/storage/v1/b/{other}").json["name"] == other
