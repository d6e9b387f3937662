"""Looking at folders finds what writing would find, and leaves them as they are."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.cloud import permission
from tasks.cloud.permission import may_write
from tasks.cloud.storage import open_folder, probe_writable


def test_what_can_be_made_may_be_written_and_is_not_made(tmp_path: Path) -> None:
    assert may_write(open_folder(str(tmp_path / "a/b"))) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_found_as_writing_finds_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for uri in (str(tmp_path / "file/runs"), "/proc/x"):
        looked, wrote = may_write(open_folder(uri)), probe_writable(open_folder(uri))
        assert looked is not None and wrote is not None
        assert (looked.what, looked.fix, bool(looked.why)) == (wrote.what, wrote.fix, True)


def test_rights_and_read_only_file_systems_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(permission.os, "access", lambda path, mode: False)  # root may do everything
        problem = may_write(open_folder(str(tmp_path / "runs")))
        assert problem is not None and problem.why == f"{tmp_path}: Permission denied"
    monkeypatch.setattr(permission.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    problem = may_write(open_folder(str(tmp_path / "runs")))
    assert problem is not None and problem.why == f"{tmp_path}: Read-only file system"


def test_a_bucket_is_not_written_to(gcs_bucket: str) -> None:
    assert may_write(open_folder(f"{gcs_bucket}/runs")) is None
    assert list(open_folder(gcs_bucket).names()) == []
    problem = may_write(open_folder(f"{gcs_bucket}-absent/x"))
    assert problem is not None and "buckets create" in problem.why


@contextmanager
def guarded(granted: list[str]) -> Iterator[str]:
    """A storage service on whose buckets we have these permissions."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert "/iam/testPermissions" in self.path
            told = json.dumps({"permissions": granted})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told.encode())

        def log_message(self, format: str, *values: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_permissions_that_are_lacking_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rights = [f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list")]
    for granted, lacking in ((rights, None), (rights[2:], "create, storage.objects.delete")):
        with guarded(granted) as url:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
            problem = may_write(open_folder("gs://theirs/runs"))
        if lacking is None:
            assert problem is None
        else:
            assert problem is not None
            assert problem.why == f"gs://theirs: you lack storage.objects.{lacking}"
