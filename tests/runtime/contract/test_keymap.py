"""Key maps: which key an object gets, and what is told about a map that says nothing clear."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyMap, KeyRef, parse_key, parse_key_map

K = "projects/p/locations/global/keyRings/r/cryptoKeys/"
MAP = parse_key_map(
    f"*:{K}all, bkt:{K}bucket,gs://bkt/runs/:{K}runs,bkt/runs/secret:gcp-kms://{K}secret,own:file:/k/own.json"
)


@pytest.mark.parametrize(
    "bucket, name, key",
    [
        ("other", "x", "all"),
        ("other", "runs/x", "all"),
        ("bkt", "x", "bucket"),
        ("bkt", "runs", "bucket"),
        ("bkt", "runs/1", "runs"),
        ("bkt", "runs/secrets/1", "secret"),
        ("bkt", "runs/secret", "secret"),
        ("bkt", "Runs/1", "bucket"),
    ],
)
def test_the_longest_prefix_of_the_bucket_wins(bucket: str, name: str, key: str) -> None:
    assert MAP.key(bucket, name) == KeyRef(f"gcp-kms://{K}{key}")


def test_a_place_that_no_entry_names_has_no_key() -> None:
    some = parse_key_map(f"bkt/runs/:{K}k")
    assert some.key("bkt", "x") is some.key("bkt2", "runs/1") is None
    assert some.touches("bkt") and not some.touches("bkt2")
    assert MAP.touches("anything")
    assert all(some.touches_below("bkt", begin) for begin in ("", "ru", "runs/", "runs/a/"))
    assert not some.touches_below("bkt", "run/") and not some.touches_below("bkt2", "runs/")
    assert MAP.touches_below("anything", "x/")
    assert KeyMap().key("bkt", "x") is None


def test_a_key_file_is_known_by_its_name() -> None:
    assert MAP.key("own", "x") == KeyRef("file:own.json", Path("/k/own.json"))
    assert parse_key("file:///k/own.json") == parse_key("file:/k/own.json")


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "empty entry"),
        (f"b:{K}k", "'b' cannot be a bucket's name"),
        (f"bkt:{K}k,", "empty entry"),
        ("bkt", "'bkt' is no entry"),
        ("bkt:", "'bkt:' is no entry"),
        (f":{K}k", "'' cannot be a bucket's name"),
        (f"Bkt:{K}k", "'Bkt' cannot be"),
        (f"*/runs:{K}k", "* has no prefix"),
        (f"bkt:{K}", "is no key"),
        ("bkt:projects/p/cryptoKeys/k", "is no key"),
        (f"bkt:{K}k/cryptoKeyVersions/1", "names a version"),
        (f"bkt:{K}k bkt2:{K}k", "is no key"),
        ("bkt:file:k.json", "no absolute path"),
        ("bkt:aws-kms://k", "is no entry"),
        (f"bkt:{K}a,bkt:{K}b", "are of the same place"),
        ("bkt:file:/a/k.json,bkt2:file:/b/k.json", "have the same name"),
    ],
)
def test_a_map_that_is_not_clear_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_key_map(text)
    assert told in str(refused.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInput) as refused:
        parse_key_map(f"bkt,B:{K}k,ok1:{K}k")
    assert len(refused.value.problems) == 2


@settings(max_examples=40)
@given(
    st.text()
    | st.lists(st.sampled_from(["bkt", "*", "/", ":", ",", "file:/k.json", f"{K}k", "gs://", " "])).map(
        "".join
    )
)
def test_any_text_is_a_map_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert parse_key_map(text).keys
