"""Large objects through the encrypting proxy as a process: 10 GB in one, and 2 GiB in the 288 of a real checkpoint."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runtime.gcs_proxy.keys import make_key_file
from tests.bench.proxies import Place, lean_store, proxy
from tests.cloud.store.running import ROOT
from tests.runtime.gcs_proxy.test_many import proportions

pytestmark = pytest.mark.system
HUGE = 10_000_000_000
GIB = 1 << 30
RSS_ALLOWED_MIB = 128


@pytest.fixture
def encrypting(tmp_path: Path) -> Iterator[Place]:
    key = tmp_path / "key.json"
    make_key_file(key)
    with (
        lean_store(tmp_path / "store", sparse=True) as store,
        proxy(store.url, "--key-map", f"*:file:{key}") as place,
    ):
        yield place


def read(place: Place, name: str, wanted: str) -> tuple[int, str, bytes]:
    """Returns status, range and content of a part."""
    connection = http.client.HTTPConnection(urlsplit(place.url).netloc, timeout=600)
    connection.request("GET", f"/storage/v1/b/b/o/{name}?alt=media", headers={"Range": f"bytes={wanted}"})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response.headers["Content-Range"], content


def at(first: int, end: int) -> bytes:
    """Returns what Place.upload has put there."""
    return bytes(place % 256 for place in range(first, end))


def test_an_object_of_10_gb_goes_through_in_little_memory(encrypting: Place) -> None:
    encrypting.upload("huge", HUGE)
    for first, last in (
        (0, 99_999),
        (5 * GIB + 70_001, 5 * GIB + 140_000),
        (9 * GIB, 9 * GIB),
        (HUGE - 1, HUGE + 5),
    ):
        told = (206, f"bytes {first}-{min(last, HUGE - 1)}/{HUGE}", at(first, min(last + 1, HUGE)))
        assert read(encrypting, "huge", f"{first}-{last}") == told
    assert read(encrypting, "huge", "-70000")[2] == at(HUGE - 70_000, HUGE)
    assert read(encrypting, "huge", f"{HUGE}-")[:2] == (416, f"bytes */{HUGE}")
    # What the store did not keep is not what was written there.
    assert read(encrypting, "huge", f"{GIB // 2}-{GIB // 2 + 5}")[0] == 422
    assert encrypting.peak_mib <= RSS_ALLOWED_MIB


def test_288_objects_of_a_real_checkpoint_at_a_thirtieth(tmp_path: Path) -> None:
    sizes, key = proportions(2 * GIB), tmp_path / "key.json"
    make_key_file(key)
    with lean_store(tmp_path / "store") as store, proxy(store.url, "--key-map", f"*:file:{key}") as place:
        names = {name.replace("/", "%2F"): size for name, size in sizes.items()}
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(place.upload, names, names.values()))
            told = list(threads.map(lambda name: read(place, name, "0-")[0], names))
        assert told == [416 if size == 0 else 206 for size in names.values()]
        for name, size in list(names.items())[::24]:
            assert read(place, name, "-1000")[2] == at(max(0, size - 1000), size)
        assert place.peak_mib <= RSS_ALLOWED_MIB


def test_fuzzing_at_length_finds_no_wrong_byte() -> None:
    """The quick tests try a little of each; here is fifty times as much."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "--timeout=1100",
        "tests/runtime/gcs_proxy/test_fuzz_objects.py",
        "tests/runtime/gcs_proxy/test_fuzz_messages.py",
    ]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "FUZZ_TIMES": "50"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
