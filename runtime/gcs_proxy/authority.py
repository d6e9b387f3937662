"""The proxy's own certificate authority: its key never leaves memory, and it can vouch for Cloud Storage alone."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
import threading
from collections import OrderedDict
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runtime.contract.errors import BadInput

CERTIFICATE, BUNDLE = "mitmproxy-ca-cert.pem", "ca-bundle.pem"
"""What is written: the authority alone, under the name that programs wait for; and with the system's authorities."""
DAYS = 30
_LEAF_S, _REMEMBERED = 86400.0, 256
_EARLY = datetime.timedelta(hours=1)
"""Clocks differ."""
_SYSTEMS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Authority:
    """Vouches for hosts, those of `roots` and below them. Threads and forked processes may share it."""

    def __init__(self, roots: tuple[str, ...], days: int = DAYS) -> None:
        self._key, self._lock = ec.generate_private_key(ec.SECP256R1()), threading.Lock()
        self._contexts: OrderedDict[str, tuple[ssl.SSLContext, datetime.datetime]] = OrderedDict()
        now = datetime.datetime.now(datetime.UTC)
        self.ends = now + datetime.timedelta(days=days)
        self._name = _named("slicebench gcs_proxy")
        nowhere = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]
        self._certificate = (
            _builder(self._name, self._name, self._key, now, self.ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(
                x509.NameConstraints([x509.DNSName(root) for root in roots], [*map(x509.IPAddress, nowhere)]),
                critical=True,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """Returns what speaks TLS in the name of a host."""
        now = datetime.datetime.now(datetime.UTC)
        with self._lock:
            found = self._contexts.pop(host, None)
            if found is None or found[1] < now:
                until = min(self.ends, now + datetime.timedelta(seconds=_LEAF_S))
                # Another day is begun an hour before this one's certificate ends.
                found = self._made(host, now, until), until - _EARLY
            self._contexts[host] = found
            while len(self._contexts) > _REMEMBERED:
                self._contexts.popitem(last=False)
            return found[0]

    def _made(self, host: str, now: datetime.datetime, until: datetime.datetime) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = (
            _builder(_named("slicebench gcs_proxy, for a host"), self._name, key, now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A program that knows HTTP/2 alone is one of gRPC: it gets an answer that it understands.
        context.set_alpn_protocols(["http/1.1", "h2"])
        _load(context, leaf.public_bytes(serialization.Encoding.PEM), key)
        return context


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime.datetime,
    until: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(until)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _load(context: ssl.SSLContext, certificate: bytes, key: ec.EllipticCurvePrivateKey) -> None:
    """Gives a context its certificate and key: ssl reads files only, so they are in one that is memory."""
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    descriptor = os.memfd_create("leaf", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(encoded + certificate)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")


class Published:
    """The files by which programs trust an authority."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        """Writes them, each at once. Raises BadInput."""
        system = _system(folder)
        self._files = {folder / BUNDLE: system + authority.pem, folder / CERTIFICATE: authority.pem}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path, content in self._files.items():
                _write(path, content)
        except OSError as error:
            raise BadInput(f"certificates cannot be written to {folder}: {error.strerror}") from error

    def remove(self) -> None:
        """Takes them away, where nobody has put others in their place."""
        for path, content in self._files.items():
            with contextlib.suppress(OSError):
                if path.read_bytes() == content:
                    path.unlink()


def _write(path: Path, content: bytes) -> None:
    """Others may read it: programs of other users are to trust what it says."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        # Made anew: a file that somebody else has laid there would stay his, and what is trusted with it.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _system(folder: Path) -> bytes:
    """Returns the authorities that the system trusts, but none of our own. Raises BadInput where there are none."""
    told = ssl.get_default_verify_paths()
    for path in filter(None, (os.environ.get("SSL_CERT_FILE"), told.cafile, *_SYSTEMS)):
        try:
            if Path(path).resolve().parent != folder.resolve():
                return Path(path).read_bytes().rstrip() + b"\n"
        except OSError:
            continue
    raise BadInput("this system has no file of trusted authorities", fix="install ca-certificates")
