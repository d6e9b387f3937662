"""Objects read without gcsfs: as whom, what is not there, and what is left to gcsfs."""

from __future__ import annotations

import email
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.pods.bucket import Bucket, NotPlainError
from runtime.pods.folder import RunFolder
from tests.tasks.cloud.scripted_server import DROP, Asked, Reply, Scripted, scripted

TOKEN = {"access_token": "t1", "expires_in": 3600}


@pytest.fixture
def google() -> Iterator[Scripted]:
    """Cloud Storage and a metadata server at one address."""
    with scripted(answer) as running:
        yield running


def answer(asked: Asked) -> Reply:
    if asked.path.startswith("/computeMetadata/"):
        return Reply(200, TOKEN)
    return Reply(200, b"held") if asked.path.endswith("there") else Reply(404)


def bucket(google: Scripted, home: Path, **more: str) -> Bucket:
    environ = {"HOME": str(home), "GCE_METADATA_HOST": google.url.removeprefix("http://"), **more}
    return Bucket("gs://b/runs/a b", environ, google.url)


def test_objects_are_read_as_the_machines_account_whose_token_is_kept(
    google: Scripted, tmp_path: Path
) -> None:
    plain = bucket(google, tmp_path)
    assert plain.read("pods/there") == b"held"
    assert plain.read("gone") is None
    asked, first, second = google.asked
    assert asked.headers["Metadata-Flavor"] == "Google"
    assert [one.path for one in (first, second)] == [
        "/storage/v1/b/b/o/runs%2Fa%20b%2Fpods%2Fthere",
        "/storage/v1/b/b/o/runs%2Fa%20b%2Fgone",
    ]
    assert {one.headers["Authorization"] for one in (first, second)} == {"Bearer t1"}
    assert first.query == {"alt": "media"}


def test_an_object_is_made_unless_it_is_there(google: Scripted, tmp_path: Path) -> None:
    google.answers(Reply(200, TOKEN), Reply(200), Reply(412))
    plain = bucket(google, tmp_path)
    assert [plain.create("pods/a1/started", b"1"), plain.create("pods/a1/started", b"1")] == [True, False]
    made = google.asked[1]
    assert (made.method, made.path, made.headers["Authorization"]) == (
        "POST",
        "/upload/storage/v1/b/b/o",
        "Bearer t1",
    )
    assert made.query == {"uploadType": "multipart", "ifGenerationMatch": "0"}
    sent = email.message_from_bytes(
        f"Content-Type: {made.headers['Content-Type']}\r\n\r\n".encode() + made.body
    )
    about, content = (part.get_payload(decode=True) for part in sent.walk() if not part.is_multipart())
    assert (json.loads(str(about, "utf-8")), content) == ({"name": "runs/a b/pods/a1/started"}, b"1")
    google.answers(Reply(503))
    with pytest.raises(NotPlainError):
        plain.create("pods/a2/started", b"1")


def test_a_token_that_expires_soon_is_asked_for_anew(google: Scripted, tmp_path: Path) -> None:
    google.answers(
        Reply(200, {**TOKEN, "expires_in": 30}), Reply(200, b"1"), Reply(200, TOKEN), Reply(200, b"2")
    )
    plain = bucket(google, tmp_path)
    assert [plain.read("a"), plain.read("a")] == [b"1", b"2"]


def test_an_emulator_is_asked_as_nobody(google: Scripted, tmp_path: Path) -> None:
    assert bucket(google, tmp_path, STORAGE_EMULATOR_HOST=google.url).read("there") == b"held"
    (asked,) = google.asked
    assert "Authorization" not in asked.headers


@pytest.mark.parametrize("reply", [Reply(503), Reply(401), Reply(200, DROP)])
def test_what_may_pass_is_gcsfs_to_try_again(google: Scripted, tmp_path: Path, reply: Reply) -> None:
    google.answers(reply)
    for more in ({}, {"STORAGE_EMULATOR_HOST": google.url}):  # without a token, and without the object
        with pytest.raises(NotPlainError):
            bucket(google, tmp_path, **more).read("there")


def test_an_account_without_a_token_is_gcsfs_to_know(google: Scripted, tmp_path: Path) -> None:
    google.answers(Reply(200, {"no": "token"}))
    with pytest.raises(NotPlainError):
        bucket(google, tmp_path).read("there")


def test_who_logs_in_by_a_file_is_gcsfs_to_know(google: Scripted, tmp_path: Path) -> None:
    with pytest.raises(NotPlainError):
        bucket(google, tmp_path, GOOGLE_APPLICATION_CREDENTIALS="/x.json").read("there")
    known = tmp_path / ".config/gcloud/application_default_credentials.json"
    known.parent.mkdir(parents=True)
    known.touch()
    with pytest.raises(NotPlainError):
        bucket(google, tmp_path).read("there")
    assert google.asked == []


def test_a_run_folder_is_read_and_written_by_gcsfs_where_it_must_be(
    gcs_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.cloud.storage import open_folder

    open_folder(f"{gcs_bucket}/runs/a").write("there", b"held")
    run, other = RunFolder(f"{gcs_bucket}/runs/a"), RunFolder(f"{gcs_bucket}/runs/a")
    assert (run.read("there"), run.read("gone")) == (b"held", None)
    assert [run.create(name, b"made") for name in ("first", "first", "there")] == [True, False, False]

    def refuse(self: Bucket, *what: object) -> bytes | None:
        raise NotPlainError

    monkeypatch.setattr(Bucket, "read", refuse)
    monkeypatch.setattr(Bucket, "create", refuse)
    assert [other.create(name, b"made") for name in ("first", "there", "second")] == [False, False, True]
    assert [run.read(name) for name in ("there", "gone", "first", "second")] == [
        b"held",
        None,
        b"made",
        b"made",
    ]
