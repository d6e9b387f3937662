"""Many objects: a checkpoint of 288 in the proportions of a real one, and ten thousand small ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runtime.gcs_proxy.within import Within, within

CONTENT = random.Random(30).randbytes(1 << 20)
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType=media&name={}"


def proportions(total: int) -> dict[str, int]:
    """Returns names and sizes of a checkpoint of 288 objects of so many bytes.

    As axlearn writes one of 7 billion parameters from 4 hosts: 65.22 GiB, nearly all of it in shards of large arrays,
    beside the description of each array, an index, and files that say that it is done.
    """
    arrays = [f"opt_{n}" for n in range(14)] + ["embedding"] + [f"norm_{n}" for n in range(15)]
    sizes = {f"gda/{name}/.zarray": 320 for name in arrays} | {"index": 9_000, "done": 0}
    shards = [f"gda/{name}/{shard}.0" for name in arrays[:15] for shard in range(16)]
    small = [f"gda/{name}/0" for name in arrays[15:]] + ["state/step"]
    sizes |= dict.fromkeys(small, 16_384)
    # Embeddings are twice as large as other shards.
    share = (total - sum(sizes.values())) / (len(shards) + 16)
    return sizes | {name: int(share) * (2 if "embedding" in name else 1) for name in shards}


@pytest.fixture
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Within]:
    with within(tmp_path_factory.mktemp("within")) as made:
        yield made


def part(name: str, size: int) -> bytes:
    """Returns what an object of this name has in it."""
    at = hash_of(name) % 1000
    return (CONTENT * (2 + size // len(CONTENT)))[at : at + size]


def hash_of(name: str) -> int:
    return sum(ord(letter) * (1 + place) for place, letter in enumerate(name))


def test_a_checkpoint_of_288_objects_is_read_back_as_it_was_written(proxy: Within) -> None:
    sizes = proportions(48 << 20)
    assert len(sizes) == 288

    def write(name: str) -> None:
        status, _, told = proxy.ask("POST", UPLOAD.format(name.replace("/", "%2F")), part(name, sizes[name]))
        assert (status, json.loads(told)["size"]) == (200, str(sizes[name]))

    def check(name: str) -> None:
        path, content = f"/storage/v1/b/bkt/o/{name.replace('/', '%2F')}?alt=media", part(name, sizes[name])
        assert proxy.ask("GET", path)[2] == content
        for first in range(0, len(content), 60_000)[:3]:
            _, _, told = proxy.ask("GET", path, Range=f"bytes={first}-{first + 9_999}")
            assert told == content[first : first + 10_000]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, sizes))
        list(threads.map(check, sizes))
    listed = json.loads(proxy.ask("GET", "/storage/v1/b/bkt/o")[2])["items"]
    assert {item["name"]: int(item["size"]) for item in listed} == sizes


@pytest.mark.system
def test_ten_thousand_small_objects_are_listed_read_and_deleted(proxy: Within) -> None:
    names = [f"small/{number:05}" for number in range(10_000)]
    for number, name in enumerate(names):
        content = part(name, number % 300)
        assert proxy.ask("POST", UPLOAD.format(name.replace("/", "%2F")), content)[0] == 200
    found, token = dict[str, int](), ""
    while True:
        listed = json.loads(proxy.ask("GET", f"/storage/v1/b/bkt/o?prefix=small/&pageToken={token}")[2])
        found |= {item["name"]: int(item["size"]) for item in listed["items"]}
        token = listed.get("nextPageToken", "")
        if not token:
            break
    assert found == {name: number % 300 for number, name in enumerate(names)}
    for number, name in enumerate(names):
        content = proxy.ask("GET", f"/storage/v1/b/bkt/o/{name.replace('/', '%2F')}?alt=media")[2]
        assert content == part(name, number % 300)
    assert len(proxy.gate._known) <= 4096, "keys of all objects are kept"
    for begin in range(0, len(names), 100):
        gone = [name.replace("/", "%2F") for name in names[begin : begin + 100]]
        parts = [
            f"--b\r\nContent-Type: application/http\r\n\r\nDELETE /storage/v1/b/bkt/o/{name} HTTP/1.1\r\n\r\n\r\n"
            for name in gone
        ]
        body = "".join(parts).encode() + b"--b--\r\n"
        told = proxy.ask("POST", "/batch/storage/v1", body, Content_Type="multipart/mixed; boundary=b")
        assert told[2].count(b"HTTP/1.1 204") == 100
    assert not proxy.world.buckets["bkt"]
