"""Both kinds of folder keep the same promises, and say what is wrong when the storage fails."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import IO

import pytest
from google.cloud import storage as google_storage

from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from tasks.cloud import local_storage
from tasks.cloud.named_file import write_named
from tasks.cloud.storage import Folder, is_there, open_folder, probe_writable, read_json
from tasks.stages.cluster_kubeconfig import write_kubeconfig
from tasks.stages.refusals import refuse_unwritable_home


@pytest.fixture(params=["local", "gs"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "local":
        return open_folder(str(tmp_path / "runs"))
    return open_folder(f"{request.getfixturevalue('gcs_bucket')}/some/runs/")


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        open_folder(str(tmp_path)).write("pipe", b"one")
        assert os.read(reader, 10) == b"one"
        write_kubeconfig("two", pipe)
        assert os.read(reader, 10) == b"two"
        assert pipe.is_fifo() and [each.name for each in tmp_path.iterdir()] == ["pipe"]
    finally:
        os.close(reader)


def test_what_is_written_is_read(folder: Folder) -> None:
    assert folder.read("a/b.json") is None
    folder.write("a/b.json", b"one")
    folder.write("a/b.json", b"two")
    assert folder.read("a/b.json") == b"two"
    assert folder.child("a").read("b.json") == b"two"


def test_a_part_is_read_from_either_end(folder: Folder) -> None:
    folder.write("a", b"0123456789")
    folder.write("empty", b"")
    assert [folder.read("a", start) for start in (0, 4, 9, 10, 11)] == [
        b"0123456789",
        b"456789",
        b"9",
        b"",
        b"",
    ]
    assert [folder.read("a", -last) for last in (1, 4, 10, 11)] == [
        b"9",
        b"6789",
        b"0123456789",
        b"0123456789",
    ]
    assert [folder.read("empty", start) for start in (0, 4, -4)] == [b"", b"", b""]
    assert folder.read("absent", 4) is folder.read("absent", -4) is None
    assert [is_there(folder, name) for name in ("a", "empty", "absent")] == [True, True, False]


def test_create_never_replaces(folder: Folder) -> None:
    assert folder.create("lease", b"mine") is True
    assert folder.create("lease", b"yours") is False
    assert folder.read("lease") == b"mine"


def test_only_one_of_many_creates(folder: Folder) -> None:
    wins: list[int] = []
    start = threading.Barrier(8)

    def contend(n: int) -> None:
        start.wait()
        if folder.create("lease", str(n).encode()):
            wins.append(n)

    threads = [threading.Thread(target=contend, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert folder.read("lease") == str(wins[0]).encode()


def test_names_are_sorted_and_stay_in_their_folder(folder: Folder) -> None:
    assert list(folder.names()) == []
    for name in ("b/2", "b/1", "b-old/3", "a", "b/c/4"):
        folder.write(name, b"")
    assert list(folder.names()) == ["a", "b-old/3", "b/1", "b/2", "b/c/4"]
    assert list(folder.names("b")) == list(folder.names("b/")) == ["b/1", "b/2", "b/c/4"]
    assert list(folder.child("b").names()) == ["1", "2", "c/4"]
    assert list(folder.names("none")) == []


def test_folders_are_named_one_level_deep(folder: Folder) -> None:
    assert list(folder.folders()) == []
    for name in ("b-run/deep/file", "a-run/file", "no-folder"):
        folder.write(name, b"")
    assert list(folder.folders()) == ["a-run", "b-run"]
    assert list(folder.child("b-run").folders()) == ["deep"]


def test_deleting_twice_is_no_error(folder: Folder) -> None:
    folder.write("a", b"x")
    folder.delete("a")
    folder.delete("a")
    assert folder.read("a") is None


def test_a_file_is_copied_in(folder: Folder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(300_000))
    folder.upload(str(source), "x/copy")
    assert folder.read("x/copy") == source.read_bytes()
    with pytest.raises(InfrastructureError, match="absent"):
        folder.upload(str(tmp_path / "absent"), "x/nothing")
    assert folder.read("x/nothing") is None


def test_json_that_is_not_there_or_not_whole_is_none(folder: Folder) -> None:
    folder.write("whole", b'{"a": [1]}')
    folder.write("torn", b'{"a": [1')
    assert [read_json(folder, name) for name in ("whole", "torn", "absent")] == [{"a": [1]}, None, None]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a\0b"])
def test_names_that_lead_out_are_refused(folder: Folder, name: str) -> None:
    for use in (folder.read, folder.delete, folder.child):
        with pytest.raises(BadInput):
            use(name)
    with pytest.raises(BadInput):
        folder.write(name, b"x")


def test_probe_leaves_nothing(folder: Folder, tmp_path: Path) -> None:
    assert probe_writable(folder) is None
    assert list(folder.names()) == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("uri", ["s3://bucket/x", "gs:/bucket", "gs://", "gs://B/x", "gs://bucket/../x", ""])
def test_other_places_are_refused(uri: str) -> None:
    with pytest.raises(BadInput):
        open_folder(uri)


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_folder("~/runs").uri == f"{tmp_path}/runs"


def test_a_failed_local_write_keeps_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(str(tmp_path))
    folder.write("a", b"old")

    def full(file: IO[bytes]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local_storage, "sync", full)
    with pytest.raises(InfrastructureError, match=r"/a: No space left on device; free some space"):
        folder.write("a", b"new")
    with pytest.raises(InfrastructureError, match="No space left"):
        folder.create("b", b"new")
    assert folder.read("a") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_create_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    folder = open_folder(str(tmp_path))
    assert folder.create("a", b"1") is True
    assert folder.create("a", b"2") is False
    assert folder.read("a") == b"1"


def test_a_file_in_the_way_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    problem = probe_writable(open_folder(str(tmp_path / "file" / "runs")))
    assert problem is not None and problem.severity == "error"
    assert str(tmp_path / "file") in problem.what and "Not a directory" in problem.why


def test_a_bucket_that_is_not_there(gcs_bucket: str) -> None:
    problem = probe_writable(open_folder(f"{gcs_bucket}-absent/x"))
    assert problem is not None
    assert "buckets create" in problem.why


def test_lost_reply_of_create_counts_as_ours(gcs_bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_folder(gcs_bucket)
    original = google_storage.Blob.upload_from_string

    def twice(blob: google_storage.Blob, *args: object, **options: object) -> None:
        original(blob, *args, **options)
        original(blob, *args, **options)

    monkeypatch.setattr(google_storage.Blob, "upload_from_string", twice)
    assert folder.create("lease", b"mine") is True
    monkeypatch.undo()


def test_an_unreachable_store_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.cloud import gs_storage

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(gs_storage, "_RETRY_S", 0.5)
    with pytest.raises(InfrastructureError, match=r"gs://some-bucket/a: "):
        open_folder("gs://some-bucket").read("a")


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EACCES, 2), (errno.EROFS, 2), (errno.ENOSPC, 3), (errno.EDQUOT, 3)]
)
def test_a_place_that_can_never_be_written_is_bad_input_and_a_full_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def refused(file: IO[bytes]) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local_storage, "sync", refused)
    for write in (lambda: write_named(tmp_path / "file", b"", force=False), refuse_unwritable_home):
        with pytest.raises(SlicebenchError, match=os.strerror(number)) as caught:
            write()
        assert caught.value.exit_code == code
