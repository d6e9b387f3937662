"""A key that is slow, away, denied or of another place: an error that says so, and nothing sent or opened without."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.gcs_proxy import kms as kms_module
from runtime.gcs_proxy.keys import make_key_file
from tests.cloud import kms as kms_stand_in
from tests.cloud.kms import Kms
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import path, serving

CONTENT = random.Random(5).randbytes(200_000)


@pytest.fixture
def kms(tmp_path: Path) -> Iterator[Kms]:
    (tmp_path / "kms").mkdir()
    with kms_stand_in.running(tmp_path / "kms") as kms:
        yield kms


def test_a_key_service_that_is_slow_is_waited_for_and_then_told_as_503(
    store: Store, bucket: str, tmp_path: Path, kms: Kms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing goes to the store before a key is there, and no buffer is taken while it is waited for."""
    name = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
    monkeypatch.setattr(kms_module, "_PATIENCE_S", 0.9)
    with serving(store.url, tmp_path, f"*:{name}", kms=kms.endpoint) as proxy:
        kms.set(faults=[{"method": "*", "seconds": 0.05}, {"method": "*", "seconds": 2}])
        assert proxy.upload(bucket, "x", CONTENT).status == 200, "slow, and once too slow"
        kms.set(faults=[{"method": "*", "seconds": 2, "times": 6}])
        for told in (proxy.upload(bucket, "y", CONTENT), proxy.read(bucket, "x")):
            assert told.status == 503 and "DEADLINE_EXCEEDED" in told.message
        assert not [call for call in store.calls(bucket) if "name=y" in call["target"]]


def test_a_key_service_that_is_not_there_is_told_as_503(store: Store, bucket: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        name = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
        away = f"127.0.0.1:{taken.getsockname()[1]}"
        with serving(store.url, tmp_path, f"*:{name}", kms=away) as proxy:
            told = proxy.upload(bucket, "x", CONTENT)
            assert told.status == 503 and "UNAVAILABLE" in told.message
    assert not store.calls(bucket)


def test_keys_that_are_denied_or_away(store: Store, bucket: str, tmp_path: Path, kms: Kms) -> None:
    name = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
    with serving(store.url, tmp_path, f"*:{name}", kms=kms.endpoint) as proxy:
        assert proxy.upload(bucket, "x", CONTENT).status == 200
        assert proxy.read(bucket, "x").content == CONTENT
        kms.set(denied=[name])
        told = proxy.upload(bucket, "y", CONTENT)
        assert told.status == 403 and "denied on resource" in told.message
        kms.set(faults=[{"method": "*", "status": "UNAVAILABLE", "times": 3}])
        assert proxy.upload(bucket, "y", CONTENT).status == 503
        assert not [call for call in store.calls(bucket) if "name=y" in call["target"]], (
            "it was sent without a key"
        )
        kms.set(disabled=[name])
        assert proxy.read(bucket, "x").content == CONTENT, "the key of a generation is asked for once"
        proxy.clock.now += 601
        assert proxy.read(bucket, "x").status == 403, "a revoked key goes on to open"
    with serving(store.url, tmp_path, f"*:{name}", kms=kms.endpoint) as proxy:
        kms.set(disabled=[name])
        told = proxy.read(bucket, "x")
        assert told.status == 403 and "is not enabled" in told.message
    with serving(store.url, tmp_path, "*:KEY") as proxy:
        told = proxy.read(bucket, "x")
        assert told.status == 403 and "--old-key" in told.message
    kms.set()
    with serving(store.url, tmp_path, "*:KEY", kms=kms.endpoint, old_keys=[name]) as proxy:
        assert proxy.read(bucket, "x").content == CONTENT


def test_a_place_is_opened_by_its_own_key_alone(store: Store, bucket: str, tmp_path: Path) -> None:
    """Who may write to a bucket and has the key of another place could else put there what is taken for sealed here."""
    lesser = tmp_path / "lesser.json"
    make_key_file(lesser)
    with serving(store.url, tmp_path, f"*:file:{lesser}") as proxy:
        proxy.upload(bucket, "low/x", CONTENT)
        proxy.upload(bucket, "x", CONTENT)
    both = f"{bucket}:KEY,{bucket}/low/:file:{lesser}"
    with serving(store.url, tmp_path, both) as proxy:
        assert proxy.read(bucket, "low/x").content == CONTENT
        for wanted in (None, "0-9"):
            told = proxy.read(bucket, "x", wanted)
            assert told.status == 403 and "--old-key" in told.message
        copied = proxy.ask("POST", f"{path(bucket, 'x')}/rewriteTo/b/{bucket}/o/y", b"{}")
        assert copied.status == 403
        assert proxy.ask("POST", f"{path(bucket, 'low/x')}/rewriteTo/b/{bucket}/o/z", b"{}").status == 200
        assert proxy.read(bucket, "z").content == CONTENT
    with serving(store.url, tmp_path, both, old_keys=[f"file:{lesser}"]) as proxy:
        assert proxy.read(bucket, "x").content == CONTENT
