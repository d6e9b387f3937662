"""Wraps of data keys: by a file, and by Cloud KMS as a stand-in plays it; and the command that decrypts by them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyRef, parse_key
from runtime.gcs_proxy.__main__ import main
from runtime.gcs_proxy.envelope import Envelope
from runtime.gcs_proxy.keys import KeyRing, make_key_file
from runtime.gcs_proxy.kms import KeyDenied, KeyUnavailable
from runtime.gcs_proxy.seal import Sealer
from tests.cloud import kms as stand_in
from tests.cloud.kms import Kms
from tests.runtime.gcs_proxy.asking import full_disk
from tests.runtime.gcs_proxy.test_seal import by_the_page

NAME = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
KEY = parse_key(NAME)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kms]:
    with stand_in.running(tmp_path_factory.mktemp("kms")) as kms:
        yield kms


@pytest.fixture
def kms(server: Kms) -> Iterator[Kms]:
    yield server
    server.set()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "key.json")
    return tmp_path / "key.json"


def ring(kms: Kms, *keys: KeyRef) -> KeyRing:
    return KeyRing(keys or [KEY], kms.endpoint)


def test_cloud_kms_wraps_for_one_place(kms: Kms) -> None:
    keys = ring(kms)
    data_key, found = keys.new(KEY, "bkt", "a/b")
    assert len(data_key) == 32 and data_key not in found.wrapped_key
    assert found.key_uri == f"gcp-kms://{NAME}"
    assert keys.data_key(found, "bkt", "a/b") == data_key
    for bucket, name in (("bkt", "a/c"), ("bkt2", "a/b")):
        with pytest.raises(KeyDenied, match="verify that 'name'"):
            keys.data_key(found, bucket, name)


def test_a_copy_is_wrapped_anew_and_opened_in_its_place_only(kms: Kms) -> None:
    keys = ring(kms)
    data_key, found = keys.new(KEY, "bkt", "a")
    copied = keys.rewrap(data_key, found, KEY, "bkt", "b")
    assert keys.data_key(copied, "bkt", "b") == data_key
    assert copied.object_id == found.object_id
    with pytest.raises(KeyDenied):
        keys.data_key(copied, "bkt", "a")


@pytest.mark.parametrize("state", ["denied", "disabled"])
def test_a_key_that_is_refused_is_told_as_such_and_not_asked_for_again(kms: Kms, state: str) -> None:
    kms.set(**{state: [NAME]})
    before = len(kms.calls())
    with pytest.raises(KeyDenied, match="denied on resource|is not enabled"):
        ring(kms).new(KEY, "bkt", "a")
    assert len(kms.calls()) == before + 1


def test_a_service_that_is_away_for_a_moment_is_asked_again(kms: Kms) -> None:
    kms.set(faults=[{"method": "Encrypt", "status": "UNAVAILABLE", "times": 2}])
    assert ring(kms).new(KEY, "bkt", "a")


@pytest.mark.parametrize("status", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"])
def test_a_service_that_stays_away_is_told_apart_from_a_refusal(kms: Kms, status: str) -> None:
    kms.set(faults=[{"method": "Encrypt", "status": status, "times": 3}])
    with pytest.raises(KeyUnavailable, match=status):
        ring(kms).new(KEY, "bkt", "a")


@pytest.mark.parametrize("method", ["Encrypt", "Decrypt"])
def test_what_was_damaged_on_its_way_is_not_taken(kms: Kms, method: str) -> None:
    keys = ring(kms)
    _, found = keys.new(KEY, "bkt", "a")
    kms.set(faults=[{"method": method, "damage": True}])
    with pytest.raises(KeyUnavailable, match="damaged"):
        keys.new(KEY, "bkt", "a") if method == "Encrypt" else keys.data_key(found, "bkt", "a")


def test_requests_to_cloud_kms_are_what_googles_own_messages_are() -> None:
    """The expected bytes were made by google-cloud-kms 3.18.0."""
    from runtime.gcs_proxy.kms import _messages

    for method, text in (("Encrypt", "plaintext"), ("Decrypt", "ciphertext")):
        request = _messages()[f"{method}Request"](
            name="n", additional_authenticated_data=b"a", **{text: b"t"}
        )
        getattr(request, f"{text}_crc32c").value = 5
        request.additional_authenticated_data_crc32c.value = 300
        assert request.SerializeToString().hex() == GOOGLES[method]


GOOGLES = {
    "Encrypt": "0a016e1201741a01613a020805420308ac02",
    "Decrypt": "0a016e1201741a01612a020805320308ac02",
}


def test_a_key_file_wraps_for_one_place_as_the_page_says(key_file: Path) -> None:
    key = parse_key(f"file:{key_file}")
    keys = KeyRing([key])
    data_key, found = keys.new(key, "bkt", "ä/b")
    assert found.key_uri == "file:key.json"
    assert KeyRing([key]).data_key(found, "bkt", "ä/b") == data_key
    unwrap = by_the_page("unwrap")
    assert unwrap(found.wrapped_key, key_file.read_text(), 65536, found.object_id, "bkt", "ä/b") == data_key
    for spoilt in (
        replace(found, object_id=bytes(16)),
        replace(found, layout=replace(found.layout, segment_bytes=4096)),
        replace(found, wrapped_key=found.wrapped_key[:-1] + bytes([found.wrapped_key[-1] ^ 1])),
    ):
        with pytest.raises(KeyDenied, match="does not open"):
            keys.data_key(spoilt, "bkt", "ä/b")
    with pytest.raises(KeyDenied, match="another place"):
        keys.data_key(found, "bkt", "b")


def test_an_object_cannot_choose_a_key_that_was_not_given(key_file: Path, kms: Kms) -> None:
    key = parse_key(f"file:{key_file}")
    _, found = KeyRing([key]).new(key, "bkt", "a")
    before = kms.calls()
    with pytest.raises(KeyDenied, match="not given here"):
        KeyRing([key], kms.endpoint).data_key(replace(found, key_uri=f"gcp-kms://{NAME}"), "bkt", "a")
    assert kms.calls() == before


def test_a_key_file_is_its_owners_alone_and_is_never_overwritten(key_file: Path) -> None:
    assert key_file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadInput, match="File exists"):
        make_key_file(key_file)
    key_file.chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        KeyRing([parse_key(f"file:{key_file}")])
    KeyRing([parse_key(f"file:{key_file}")], mounted=True)


@pytest.mark.parametrize(
    "endpoint", ["10.0.0.1:80", "kms.example.com:443", "127.0.0.1.evil.com:80", "[2001:db8::1]:80"]
)
def test_a_stand_in_of_cloud_kms_is_on_this_machine(endpoint: str) -> None:
    with pytest.raises(BadInput, match="without TLS"):
        KeyRing([], endpoint)
    for here in ("127.0.0.1:80", "[::1]:80", "localhost:80"):
        KeyRing([], here)


def test_a_full_disk_leaves_no_half_of_a_key(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(BadInput, match="no key can be written"):
        make_key_file(tmp_path / "key.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"primaryKeyId": 1, "key": []}', "[" * 100_000])
def test_a_file_that_is_no_keyset_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(BadInput, match="no keyset"):
        KeyRing([parse_key(f"file:{path}")])


def test_what_never_ends_or_never_begins_is_no_key_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (Path("/dev/zero"), tmp_path / "pipe", tmp_path):
        with pytest.raises(BadInput, match="regular file|Is a directory"):
            KeyRing([parse_key(f"file:{path}")])
    (large := tmp_path / "large.json").touch(0o600)
    large.write_bytes(b" " * (1 << 21))
    with pytest.raises(BadInput, match="too large"):
        KeyRing([parse_key(f"file:{large}")])


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        KeyRing([parse_key(f"file:{tmp_path}/none.json")])


def stored(folder: Path, found: Envelope, data_key: bytes, plain: bytes) -> list[str]:
    """Lays out an object as it is downloaded; returns the arguments that name it."""
    sealed = Sealer(data_key, found.object_id, found.layout).last(plain)
    (folder / "sealed").write_bytes(sealed)
    resource = {"bucket": "bkt", "name": "a", "metadata": {**found.metadata(), "mine": "1"}}
    (folder / "resource.json").write_text(json.dumps(resource))
    return [
        "decrypt",
        f"{folder}/sealed",
        "--resource",
        f"{folder}/resource.json",
        "--output",
        f"{folder}/plain",
    ]


def test_the_command_decrypts_by_a_file_that_it_made(tmp_path: Path) -> None:
    assert main(["new-key", f"{tmp_path}/k.json"]) == 0
    key = parse_key(f"file:{tmp_path}/k.json")
    data_key, found = KeyRing([key]).new(key, "bkt", "a")
    command = stored(tmp_path, found, data_key, b"hello")
    assert main([*command, "--key", f"file:{tmp_path}/k.json"]) == 0
    assert (tmp_path / "plain").read_bytes() == b"hello"


def test_the_command_puts_plaintext_in_the_place_of_files_alone(
    tmp_path: Path, key_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = parse_key(f"file:{key_file}")
    data_key, found = KeyRing([key]).new(key, "bkt", "a")
    command = [*stored(tmp_path, found, data_key, b"hello"), "--key", f"file:{key_file}"]
    output = tmp_path / "plain"
    assert main(command) == main(command) == 0
    assert output.stat().st_mode & 0o777 == 0o600
    output.unlink()
    for make in (lambda: os.mkfifo(output), lambda: output.symlink_to("/dev/stdout"), output.mkdir):
        make()
        before = output.lstat()
        assert main(command) == 2 and "is not a file" in capsys.readouterr().err
        assert output.lstat().st_ino == before.st_ino
        output.rmdir() if output.is_dir() else output.unlink()
    command[command.index("--output") + 1] = f"{tmp_path}/none/plain"
    assert main(command) == 2 and "no folder" in capsys.readouterr().err
    for given in ("sealed", "resource.json"):
        command[command.index("--output") + 1] = f"{tmp_path}/{given}"
        assert main(command) == 2 and "is one of the files to read" in capsys.readouterr().err
    command[command.index("--output") + 1] = f"{output}"
    stored(tmp_path, found, data_key, b"hello" * 9)
    with full_disk():
        assert main(command) == 3
    assert "plain" in capsys.readouterr().err and not output.exists()
    (tmp_path / "sealed").unlink()
    assert main(command) == 2 and "there is no file" in capsys.readouterr().err


def test_the_command_decrypts_by_cloud_kms(tmp_path: Path, kms: Kms) -> None:
    data_key, found = ring(kms).new(KEY, "bkt", "a")
    command = [*stored(tmp_path, found, data_key, b""), "--key", NAME, "--kms-endpoint", kms.endpoint]
    assert main(command) == 0
    assert (tmp_path / "plain").read_bytes() == b""


def test_the_command_says_what_is_wrong_and_leaves_nothing(
    tmp_path: Path, kms: Kms, capsys: pytest.CaptureFixture[str]
) -> None:
    data_key, found = ring(kms).new(KEY, "bkt", "a")
    command = [*stored(tmp_path, found, data_key, b"hello"), "--key", NAME, "--kms-endpoint", kms.endpoint]

    def told(code: int) -> str:
        assert main(command) == code
        assert {path.name for path in tmp_path.iterdir() if "plain" in path.name} == set()
        return capsys.readouterr().err

    kms.set(denied=[NAME])
    assert "denied on resource" in told(1)
    kms.set(faults=[{"method": "Decrypt", "status": "UNAVAILABLE", "times": 3}])
    assert "UNAVAILABLE" in told(3)
    kms.set()
    whole = (tmp_path / "sealed").read_bytes()
    (tmp_path / "sealed").write_bytes(whole[:-1])
    assert "segment 0 is not what was written" in told(1)
    (tmp_path / "sealed").write_bytes(b"")
    assert "no object of this format has 0 bytes" in told(1)
    (tmp_path / "sealed").write_bytes(whole)
    resource: dict[str, Any] = json.loads((tmp_path / "resource.json").read_text())
    (tmp_path / "resource.json").write_text(json.dumps({**resource, "metadata": {"mine": "1"}}))
    assert re.search("metadata lack .*wrapped-key", told(1))
    (tmp_path / "resource.json").write_text("[]")
    assert "has no bucket and name" in told(2)
