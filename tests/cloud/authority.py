"""A certificate authority for stand-ins that are served over TLS."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """An authority; each has its own key."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed("authority", self.key, None)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """Returns a certificate for a name and 127.0.0.1, and its key, both as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [
                x509.DNSName(name),
                *([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))] if name == "api" else []),
            ]
        )
        return _pem(self._signed(name, key, names)), _key_pem(key)

    def furnish(self, folder: Path, name: str = "api") -> None:
        """Writes what a server on loopback needs into a folder: server.pem, server.key, and ca.pem for its clients."""
        certificate, key = self.issue(name)
        for file, content in (("server.pem", certificate), ("server.key", key), ("ca.pem", self.pem)):
            (folder / file).write_bytes(content)

    @property
    def pem(self) -> bytes:
        return _pem(self.certificate)

    def _signed(
        self, name: str, key: ec.EllipticCurvePrivateKey, names: x509.SubjectAlternativeName | None
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
