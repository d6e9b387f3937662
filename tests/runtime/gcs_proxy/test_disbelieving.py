"""A store that says what cannot be, kept something else, or broke off is not believed."""

from __future__ import annotations

import json

import pytest

from runtime.gcs_proxy.format import Layout
from runtime.gcs_proxy.messages import Request, receive_response, request_head
from runtime.gcs_proxy.wire import BadMessage, Headers
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, path
from tests.runtime.gcs_proxy.test_refusing import CONTENT, UPLOAD, C, S, cut_answer
from tests.runtime.gcs_proxy.within import End


def test_an_early_no_of_the_store_reaches_the_client(proxy: Proxy, store: Store, bucket: str) -> None:
    store.faults({"method": "POST", "path": bucket, "early": 412, "body": '{"error": {"code": 412}}'})
    assert proxy.upload(bucket, "x", bytes(8 << 20)).status == 412


def test_a_store_that_says_yes_too_early_is_not_believed(proxy: Proxy, store: Store, bucket: str) -> None:
    store.faults({"method": "POST", "path": bucket, "early": 200, "body": "{}"})
    told = proxy.upload(bucket, "x", bytes(8 << 20))
    assert told.status == 503


def test_a_store_that_kept_something_else_is_not_believed(proxy: Proxy, store: Store, bucket: str) -> None:
    store.faults({"method": "POST", "path": bucket, "status": 200, "body": '{"size": "5", "name": "x"}'})
    told = proxy.upload(bucket, "x", CONTENT)
    assert told.status == 503 and "another number of bytes" in told.message


@pytest.mark.parametrize("said", [{}, {"size": str(Layout().sealed_size(len(CONTENT)))}])
def test_a_store_that_does_not_say_what_it_kept_is_not_believed(
    proxy: Proxy, store: Store, bucket: str, said: dict[str, str]
) -> None:
    store.faults({"method": "POST", "path": bucket, "status": 200, "body": json.dumps(said)})
    told = proxy.upload(bucket, "x", CONTENT)
    assert told.status == 503 and "does not say" in told.message


@pytest.mark.parametrize("how", ["media", "resumable", "xml"])
def test_bytes_that_were_damaged_on_their_way_are_taken_away_again(
    proxy: Proxy, store: Store, bucket: str, how: str
) -> None:
    if how == "xml":
        told_of_store = {"x-goog-hash": "md5=x,crc32c=AAAAAA==", "X-Goog-Generation": "5"}
        store.faults({"method": "PUT", "path": bucket, "headers": told_of_store})
        told = proxy.ask("PUT", f"/{bucket}/x", CONTENT)
        assert b"other bytes" in told.content
    else:
        sealed = Layout().sealed_size(len(CONTENT))
        kept = f'{{"name": "x", "size": "{sealed}", "crc32c": "AAAAAA==", "generation": "5"}}'
        store.faults({"path": "upload_id" if how == "resumable" else bucket, "status": 200, "body": kept})
        target = UPLOAD.format(bucket, how) + "&name=x&userProject=p"
        told = proxy.ask("POST", target, CONTENT if how == "media" else b"{}")
        if how == "resumable":
            place = told.headers["Location"].removeprefix(proxy.url)
            told = proxy.ask("PUT", place, CONTENT)
            assert proxy.ask("PUT", place, CONTENT).status == 410
        assert "other bytes than it was sent" in told.message
    assert told.status == 503
    (taken,) = [call["target"] for call in store.calls(bucket) if call["method"] == "DELETE"]
    assert "generation=5" in taken and ("userProject=p" in taken) == (how == "media")


@pytest.mark.parametrize("fields", ["name", "size", "kind,md5Hash"])
def test_an_upload_is_checked_whatever_of_the_object_is_asked_for(
    proxy: Proxy, store: Store, bucket: str, fields: str
) -> None:
    told = proxy.upload(bucket, "x", CONTENT, query=f"&fields={fields}")
    assert (told.status, told.json["size"]) == (200, str(len(CONTENT)))
    begun = proxy.ask("POST", UPLOAD.format(bucket, "resumable") + f"&name=y&fields={fields}", b"{}")
    done = proxy.ask("PUT", begun.headers["Location"].removeprefix(proxy.url), CONTENT)
    assert (done.status, done.json["size"]) == (200, str(len(CONTENT)))
    asked = [call["target"] for call in store.calls(bucket) if "fields=" in call["target"]]
    assert len(asked) == 2 and all("crc32c" in target and "generation" in target for target in asked)


def test_a_store_that_breaks_off_is_told_as_503_or_by_a_cut(proxy: Proxy, store: Store, bucket: str) -> None:
    proxy.upload(bucket, "x", CONTENT)
    store.faults({"path": "alt=media", "cut": 100})
    assert proxy.read(bucket, "x").status == 503
    store.faults({"path": "alt=media", "cut": S + 100})
    assert cut_answer(proxy, f"{path(bucket, 'x')}?alt=media") == CONTENT[: C - 12]
    store.faults({"method": "POST", "path": bucket, "take": 1000})
    assert proxy.upload(bucket, "y", CONTENT).status == 503


def test_a_store_that_only_says_that_it_goes_on_is_given_up() -> None:
    """Each such word may come just before patience ends."""
    _, parser = request_head(Request("GET", "/", Headers([("Host", "x")])))
    going_on, answer = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert receive_response(End(going_on * 3 + answer), parser, "GET").status == 200
    _, parser = request_head(Request("GET", "/", Headers([("Host", "x")])))
    with pytest.raises(BadMessage, match="again and again"):
        receive_response(End(going_on * 99), parser, "GET")
