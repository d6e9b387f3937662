"""The clients people use, put to work: `python clients.py BUCKET WORK…`; the environment says where the proxy is."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np


def tensorstore(bucket: str) -> None:
    """Key-values with conditions and ranges, then arrays in OCDBT and Zarr."""
    import tensorstore as ts

    store = ts.KvStore.open({"driver": "gcs", "bucket": bucket, "path": "kv/"}).result()
    value = np.random.default_rng(1).bytes(300_000)
    first = store.write("a", value).result()
    assert store.read("a").result().value == value
    for wanted in (
        slice(0, 1),
        slice(65_507, 65_510),
        slice(100, None),
        slice(-7, None),
        slice(299_999, 300_000),
    ):
        assert store.read("a", byte_range=wanted).result().value == value[wanted]
    assert store.read("a", if_not_equal=first.generation).result().state == "unspecified"
    value = value[::-1]
    assert store.write("a", value, if_equal=first.generation).result().generation
    store.write("a", b"too late", if_equal=first.generation).result()
    assert store.read("a").result().value == value
    assert store.read("none").result().state == "missing"
    assert store.list().result() == [b"a"]
    store.delete_range(ts.KvStore.KeyRange("a", "b")).result()
    assert store.list().result() == []
    array = np.random.default_rng(2).normal(size=(96, 1024)).astype("float32")
    for driver, kvstore in (
        ("zarr3", {"driver": "ocdbt", "base": f"gs://{bucket}/ocdbt/"}),
        ("zarr", {"driver": "gcs", "bucket": bucket, "path": "zarr/"}),
    ):
        _array(ts, {"driver": driver, "kvstore": kvstore}, array)


def _array(ts: Any, spec: dict[str, Any], array: Any) -> None:
    chunks = ts.ChunkLayout(chunk_shape=[32, 512])
    made = ts.open(spec, create=True, dtype=ts.float32, shape=array.shape, chunk_layout=chunks).result()
    made.write(array).result()
    again = ts.open(spec, context=ts.Context()).result()
    assert (again.read().result() == array).all()
    assert (again[5:7, 100:103].read().result() == array[5:7, 100:103]).all()


def storage(bucket: str) -> None:
    """google-cloud-storage: uploads, downloads, ranges, metadata, lists, deletes."""
    from google.api_core.exceptions import NotFound, PreconditionFailed
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    place = Client(project="p", credentials=AnonymousCredentials()).bucket(bucket)
    value = np.random.default_rng(3).bytes(400_000)
    blob = place.blob("dir/ä b")
    blob.metadata = {"mine": "1"}
    blob.upload_from_string(value, checksum="md5", if_generation_match=0)
    assert blob.size == len(value) and blob.metadata == {"mine": "1"}
    try:
        blob.upload_from_string(b"", if_generation_match=0)
    except PreconditionFailed:
        pass
    else:
        raise AssertionError("it was written over")
    found = place.get_blob("dir/ä b")
    assert found.size == len(value) and found.metadata == {"mine": "1"}
    assert found.download_as_bytes() == value
    assert found.download_as_bytes(start=65_500, end=65_520) == value[65_500:65_521]
    assert found.download_as_bytes(raw_download=True) == value
    found.metadata = {"other": "2"}
    found.patch()
    found.content_type = "a/b"
    found.update()
    assert [(one.name, one.size) for one in place.list_blobs(prefix="dir/")] == [("dir/ä b", len(value))]
    found.reload()
    assert (found.content_type, found.metadata["other"]) == ("a/b", "2")
    assert found.download_as_bytes() == value
    large = place.blob("large", chunk_size=256 << 10)
    large.upload_from_file(io.BytesIO(value * 3), size=len(value) * 3)
    assert large.size == len(value) * 3 and large.download_as_bytes() == value * 3
    streamed = place.blob("streamed", chunk_size=256 << 10)
    with streamed.open("wb") as file:
        file.write(value)
    assert streamed.download_as_bytes() == value
    copied = place.copy_blob(found, place, "copied")
    assert copied.size == len(value) and copied.download_as_bytes() == value
    token, done, whole = place.blob("rewritten").rewrite(copied)
    assert (token, done, whole) == (None, len(value), len(value))
    assert place.blob("rewritten").download_as_bytes() == value
    found.delete()
    try:
        found.delete()
    except NotFound:
        return
    raise AssertionError("it is still there")


def gcsfs(bucket: str) -> None:
    """gcsfs: small files, ranges, lists."""
    from gcsfs import GCSFileSystem

    files = GCSFileSystem(token="anon", use_listings_cache=False, session_kwargs={"trust_env": True})
    value = np.random.default_rng(4).bytes(200_000)
    files.pipe_file(f"{bucket}/fs/a", value)
    files.pipe_file(f"{bucket}/fs/ends with\r", b"data\r\n--==0=_\r")
    assert files.cat_file(f"{bucket}/fs/ends with\r") == b"data\r\n--==0=_\r"
    assert files.cat_file(f"{bucket}/fs/a") == value
    assert files.cat_file(f"{bucket}/fs/a", start=100_000, end=150_000) == value[100_000:150_000]
    assert files.info(f"{bucket}/fs/a")["size"] == len(value)
    assert {one["name"].rsplit("/")[-1]: one["size"] for one in files.ls(f"{bucket}/fs", detail=True)} == {
        "a": len(value),
        "ends with\r": 14,
    }
    with files.open(f"{bucket}/fs/large", "wb", block_size=5 << 20) as file:
        for _ in range(30):
            file.write(value)
    assert files.info(f"{bucket}/fs/large")["size"] == 30 * len(value)
    assert (
        files.cat_file(f"{bucket}/fs/large", start=5_500_000, end=5_500_100)
        == (value * 30)[5_500_000:5_500_100]
    )
    files.cp_file(f"{bucket}/fs/a", f"{bucket}/fs/b")
    assert files.cat_file(f"{bucket}/fs/b") == value
    files.mv(f"{bucket}/fs/b", f"{bucket}/fs/c")
    assert files.cat_file(f"{bucket}/fs/c") == value
    files.rm([f"{bucket}/fs/c", f"{bucket}/fs/large"])
    assert not files.exists(f"{bucket}/fs/large") and not files.exists(f"{bucket}/fs/b")
    with files.open(f"{bucket}/fs/a", "rb", block_size=70_000) as file:
        file.seek(65_000)
        assert file.read(1000) == value[65_000:66_000]


def batches(bucket: str) -> None:
    """google-cloud-storage: deletes and changes of metadata in one request."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client

    client = Client(project="p", credentials=AnonymousCredentials())
    place = client.bucket(bucket)
    blobs = [place.blob(f"batch/{number} ä") for number in range(5)]
    for blob in blobs:
        blob.upload_from_string(b"12345")
    with client.batch():
        for blob in blobs[1:]:
            blob.delete()
        blobs[0].metadata = {"mine": "1"}
        blobs[0].patch()
    assert [one.name for one in place.list_blobs(prefix="batch/")] == ["batch/0 ä"]
    assert place.get_blob("batch/0 ä").metadata == {"mine": "1"}


if __name__ == "__main__":
    for work in sys.argv[2:]:
        globals()[work](sys.argv[1])
        print(f"{work} is done", flush=True)
