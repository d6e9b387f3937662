"""The proxy's own authority: what it can vouch for, how long, and what of it is written."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from runtime.contract.errors import BadInput
from runtime.gcs_proxy.authority import BUNDLE, CERTIFICATE, Authority, Published
from tests.runtime.gcs_proxy.asking import full_disk

STORAGE = "storage.googleapis.com"


def handshake(context: ssl.SSLContext, authority: Authority, host: str) -> dict[str, Any] | None:
    """Has a program and the proxy greet each other in memory; returns what the program was shown."""
    ends = [ssl.MemoryBIO() for _ in range(2)]
    program = context.wrap_bio(ends[0], ends[1], server_hostname=host)
    proxy = authority.context(host).wrap_bio(ends[1], ends[0], server_side=True)
    for _ in range(4):
        for side in (program, proxy):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return program.getpeercert()


@pytest.mark.parametrize("host", [STORAGE, f"a.b_c.{STORAGE}", "www.googleapis.com"])
def test_the_authority_vouches_for_cloud_storage(tmp_path: Path, host: str) -> None:
    authority = Authority((STORAGE, "www.googleapis.com"))
    handshake(ssl.create_default_context(cadata=authority.pem.decode()), authority, host)


@pytest.mark.parametrize("host", ["example.com", "oauth2.googleapis.com", "googleapis.com", f"x{STORAGE}"])
def test_the_authority_can_vouch_for_nothing_else_whoever_had_its_key(host: str) -> None:
    authority = Authority((STORAGE, "www.googleapis.com"))
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree violation"):
        handshake(ssl.create_default_context(cadata=authority.pem.decode()), authority, host)


def test_the_authority_vouches_for_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority((STORAGE,))
    with monkeypatch.context() as patched:
        patched.setattr(x509, "DNSName", lambda host: x509.IPAddress(ipaddress.ip_address(host)))
        authority.context("127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="excluded subtree violation"):
        handshake(ssl.create_default_context(cadata=authority.pem.decode()), authority, "127.0.0.1")


def test_certificates_alone_are_written_and_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / "certs" / "of"
    authority = Authority((STORAGE,))
    published = Published(folder, authority)
    assert sorted(path.name for path in folder.iterdir()) == sorted((CERTIFICATE, BUNDLE))
    assert (folder / CERTIFICATE).read_bytes() == authority.pem
    assert (folder / BUNDLE).read_bytes().endswith(authority.pem)
    assert (folder / BUNDLE).read_bytes().count(b"BEGIN CERTIFICATE") > 20, "the system's are not there"
    for file in folder.iterdir():
        assert b"PRIVATE" not in file.read_bytes() and file.stat().st_mode & 0o777 == 0o644
    another = Published(folder, Authority((STORAGE,)))
    published.remove()
    assert (folder / CERTIFICATE).exists(), "another's certificate was taken away"
    another.remove()
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="cannot be written"):
        Published(tmp_path / "file", Authority((STORAGE,)))


def test_a_full_disk_leaves_no_half_of_a_certificate(tmp_path: Path) -> None:
    authority = Authority((STORAGE,))
    with full_disk(), pytest.raises(BadInput, match="cannot be written"):
        Published(tmp_path, authority)
    assert not list(tmp_path.iterdir())


def test_an_authority_is_short_lived_and_a_hosts_certificate_shorter() -> None:
    authority = Authority((STORAGE,), days=3)
    now = datetime.datetime.now(datetime.UTC)
    ends = x509.load_pem_x509_certificate(authority.pem).not_valid_after_utc
    assert datetime.timedelta(days=2, hours=23) < ends - now <= datetime.timedelta(days=3)
    told = handshake(ssl.create_default_context(cadata=authority.pem.decode()), authority, STORAGE)
    assert told is not None and isinstance(told["notAfter"], str)
    assert ssl.cert_time_to_seconds(told["notAfter"]) - now.timestamp() <= 86401
    assert authority.context(STORAGE) is authority.context(STORAGE)
    assert authority.context(STORAGE) is not authority.context(f"b.{STORAGE}")
    for number in range(300):
        authority.context(f"b{number % 2}.{STORAGE}")
    assert len(authority._contexts) == 4
