"""What the proxy is told, by words and environment: read, and refused where it is not safe or not clear."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyMap, KeyRef, parse_key, parse_key_map
from runtime.contract.loopback import is_loopback
from runtime.gcs_proxy.authority import BUNDLE, CERTIFICATE, DAYS
from runtime.gcs_proxy.hosts import NEEDED, Place, parse_place
from runtime.gcs_proxy.neighbours import is_told
from runtime.gcs_proxy.upstream import GOOGLE, parse_origin

KEY_MAP, NO_ENCRYPTION, INSECURE, LEVEL, CERTIFICATES = (
    "GCP_KMS_BUCKET_KEY_MAPPING",
    "GCS_PROXY_DISABLE_ENCRYPTION",
    "SSL_INSECURE",
    "DEBUG_LEVEL",
    "PROXY_CERT_PATH",
)
_MOST, _LEAST_MIB = 64, 4
OWN, ALL = "own", "all"
"""Programs of the proxy's user, or of whoever gets through."""
_NO = ("", "0", "false", "no", "off")
MOUNTED = "mounted"
"""Of key files: others may read them, by their modes, and nobody else is there."""


@dataclass(frozen=True)
class ForwardSettings:
    """What the forward face was told."""

    listen: tuple[str, int]
    certificates: Path
    days: int
    allowed: tuple[Place, ...]


@dataclass(frozen=True)
class Settings:
    """What the proxy was told."""

    listen: tuple[str, int]
    key_map: KeyMap
    old_keys: tuple[KeyRef, ...]
    upstream: str
    upstream_ca: str | None
    kms_endpoint: str | None
    buffer_mib: int
    admin: tuple[str, int] | None
    level: int
    forward: ForwardSettings | None = None
    processes: int = 1
    md5: bool = False
    login: str = ""
    """Whose programs get the machine's token: OWN, ALL, or nobody's."""
    users: str = ALL
    """Whose programs are answered."""
    mounted_keys: bool = False
    """Whether others may read key files, by their modes."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds what `serve` is told by."""
    _add_keys(parser.add_argument_group("what is encrypted, and with which keys"))
    _add_sides(parser.add_argument_group("who may use the proxy, and where it connects"))
    _add_means(parser.add_argument_group("resources"))
    _add_forward(parser.add_argument_group("for programs that only know https_proxy"))


def _add_keys(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--key-map",
        metavar="BUCKET[/PREFIX]:KEY,…",
        help=f"which objects are encrypted, with which key (variable: {KEY_MAP}); * is any bucket",
    )
    group.add_argument(
        "--old-key",
        action="append",
        default=[],
        metavar="KEY",
        help="an earlier key, for reading objects that were written with it",
    )
    group.add_argument(
        "--key-files",
        default=OWN,
        choices=(OWN, MOUNTED),
        help=f"{OWN}: refuse key files that other users may read; {MOUNTED}: accept them, as for a Secret mounted into "
        "a container (default: %(default)s)",
    )
    group.add_argument(
        "--no-encryption",
        action="store_true",
        help=f"encrypt nothing, pass everything through (variable: {NO_ENCRYPTION}, if not empty)",
    )
    group.add_argument("--kms-endpoint", metavar="HOST:PORT", help="a stand-in for Cloud KMS, without TLS")


def _add_sides(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--listen",
        default="127.0.0.1:9081",
        metavar="ADDRESS:PORT",
        help="address to serve on, loopback only (default: %(default)s)",
    )
    group.add_argument(
        "--users",
        choices=(OWN, ALL),
        default="",
        help="whose programs may use the proxy, and so this user's keys; "
        f"{OWN}: this user's only; {ALL}: anybody's who can connect, as in pods (default: {OWN}, or as --login)",
    )
    group.add_argument(
        "--admin",
        metavar="ADDRESS:PORT",
        help="serve /healthz, /readyz and /metrics here (default: nowhere)",
    )
    group.add_argument("--upstream", default=GOOGLE, metavar="URL", help="the store (default: %(default)s)")
    group.add_argument(
        "--upstream-ca",
        metavar="FILE",
        help="certificate authorities to trust for the store, besides the system's",
    )
    group.add_argument(
        "--login",
        nargs="?",
        const=OWN,
        default="",
        choices=(OWN, ALL),
        help="give requests without a token this machine's own (application default credentials), if the store is "
        f"Google's; {OWN}, or no word: requests of this user's programs; {ALL}: of anybody who can connect",
    )


def _add_means(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--buffer-mib",
        type=int,
        default=40,
        metavar="N",
        help="memory for all transfers together, MiB (default: %(default)s)",
    )
    group.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="how many processes serve; one encrypts as fast as one core can (default: %(default)s)",
    )
    group.add_argument(
        "--md5",
        action="store_true",
        help="compute the MD5 of all uploads, for programs that need it in answers to resumable ones; slow",
    )


def _add_forward(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--certificates",
        metavar="FOLDER",
        help=f"serve such programs too, and write {CERTIFICATE} and {BUNDLE} there, with which they trust this proxy "
        f"(variable: {CERTIFICATES})",
    )
    group.add_argument(
        "--forward",
        metavar="ADDRESS:PORT",
        help="where they connect, loopback only (default: 127.0.0.1:9080)",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="HOST[:PORT]",
        help=f"let them connect to this host, besides {', '.join(NEEDED)}; *.DOMAIN: all hosts below it",
    )
    group.add_argument(
        "--certificate-days",
        type=int,
        default=DAYS,
        metavar="N",
        help="how long the certificates are valid (default: %(default)s)",
    )


def settings(given: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """Returns what the proxy was told by words and environment. Raises BadInput."""
    if environ.get(INSECURE, "").lower() not in ("", "0", "false", "no"):
        raise BadInput(
            f"{INSECURE} is set: the store's certificate is always verified here",
            fix="unset it, and name the authority of a store of your own by --upstream-ca",
        )
    if (said := environ.get(NO_ENCRYPTION, "")) and said.strip().lower() in _NO:
        raise BadInput(
            f"{NO_ENCRYPTION} is {environ[NO_ENCRYPTION]!r}: whatever it is set to, nothing is encrypted",
            fix="unset it, and all is encrypted that the key map names; or set it to 1",
        )
    off = given.no_encryption or bool(environ.get(NO_ENCRYPTION))
    told = given.key_map if given.key_map is not None else environ.get(KEY_MAP, "")
    if not told and not off:
        raise BadInput(
            "there is no key map: nothing would be encrypted",
            fix=f"--key-map 'BUCKET:KEY', {KEY_MAP}, or --no-encryption",
        )
    users = given.users or (ALL if given.login == ALL else OWN)
    if OWN in (users, given.login) and not is_told():
        raise BadInput(
            "this system does not tell whose programs connect",
            fix=f"--users {ALL}, and --login {ALL} for --login, if nobody else is here",
        )
    if not 1 <= given.processes <= _MOST:
        raise BadInput(f"--processes is from 1 to {_MOST}")
    if given.buffer_mib < _LEAST_MIB * given.processes:
        raise BadInput(f"--buffer-mib is at least {_LEAST_MIB} for each process")
    return Settings(
        _loopback(given.listen),
        KeyMap() if off else parse_key_map(told),
        tuple(parse_key(key) for key in given.old_key),
        _store(given.upstream, given.upstream_ca),
        given.upstream_ca,
        given.kms_endpoint,
        given.buffer_mib,
        _address(given.admin) if given.admin else None,
        _level(environ.get(LEVEL, "")),
        _forward(given, environ),
        given.processes,
        given.md5,
        given.login,
        users,
        given.key_files == MOUNTED,
    )


def _forward(given: argparse.Namespace, environ: Mapping[str, str]) -> ForwardSettings | None:
    folder = given.certificates if given.certificates is not None else environ.get(CERTIFICATES, "")
    if not folder:
        if given.forward or given.allow:
            raise BadInput(
                "--forward and --allow need --certificates: programs have to trust what stands in for their store",
                fix=f"--certificates FOLDER, or {CERTIFICATES}",
            )
        return None
    if not 1 <= given.certificate_days <= 365:
        raise BadInput("--certificate-days is from 1 to 365")
    return ForwardSettings(
        _loopback(given.forward or "127.0.0.1:9080"),
        Path(folder),
        given.certificate_days,
        tuple(parse_place(text) for text in (*NEEDED, *given.allow)),
    )


def _level(text: str) -> int:
    if text not in ("", "0", "1"):
        raise BadInput(f"{LEVEL} is {text!r}", fix="0 tells of what went wrong, 1 of every request")
    return int(text or 0)


def _store(url: str, authorities: str | None) -> str:
    """Tokens go there with each request: without TLS, only on this machine."""
    origin = parse_origin(url)
    if authorities and origin.scheme != "https":
        raise BadInput(f"--upstream-ca: {url!r} is asked without TLS, where no authority is")
    if origin.scheme != "https" and not is_loopback(origin.host):
        raise BadInput(
            f"{url!r} is asked without TLS: whoever is on the way could read tokens",
            fix="https://HOST, with --upstream-ca where its authority is not the system's",
        )
    return url


def _loopback(text: str) -> tuple[str, int]:
    """Tokens and plaintext go this way without TLS: they are not to leave the machine."""
    host, port = _address(text)
    if not is_loopback(host):
        raise BadInput(
            f"{text!r} is not on loopback: whoever reaches it could read plaintext", fix="127.0.0.1:PORT"
        )
    return host, port


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else bare)
        number = int(port) if port.isascii() and port.isdigit() else -1
    except ValueError:
        number = -1
    # Without brackets an address of IPv6 has no end: ::1:9081 is one.
    if not 0 <= number < 65536 or (address.version == 6) == (bare == host):
        raise BadInput(f"{text!r} is no ADDRESS:PORT", fix="write it like 127.0.0.1:9081, or [::1]:9081")
    return str(address), number
