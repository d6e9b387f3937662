"""Whether a host is who it should be: by its pinned key, else by a known_hosts file. Unknown is refused."""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import NotTrusted
from tasks.cloud.ssh_paramiko import UnknownKeyType, paramiko


def expected_keys(endpoint: Endpoint) -> tuple[paramiko.PKey, ...]:
    """Returns the keys this host may show. Raises NotTrusted when nothing is known of it."""
    if endpoint.host_key is not None:
        return (_pinned(endpoint, endpoint.host_key),)
    file = Path(endpoint.known_hosts or "~/.ssh/known_hosts").expanduser()
    name = _name(endpoint)
    known = tuple(
        line.key for line in _known_hosts(file, _version(file)) if line.names(name) and not line.revoked
    )
    if not known:
        raise NotTrusted(
            str(endpoint),
            "host_key_unknown",
            f"its host key is not known: {file} has no line for {name}",
            f"compare its fingerprint with the host's own, then add it: ssh-keyscan -p {endpoint.port} "
            f"{endpoint.address} >> {file}; or pin it with host_key: in the target file",
        )
    return known


def verify(endpoint: Endpoint, expected: tuple[paramiko.PKey, ...], shown: paramiko.PKey) -> None:
    """Raises NotTrusted unless the host shows a key that is expected, and not revoked."""
    if endpoint.host_key is None:
        file = Path(endpoint.known_hosts or "~/.ssh/known_hosts").expanduser()
        lines = _known_hosts(file, _version(file))
        if any(line.revoked and line.key == shown for line in lines if line.names(_name(endpoint))):
            raise NotTrusted(str(endpoint), "host_key_revoked", f"its host key is revoked in {file}")
    if any(shown.asbytes() == known.asbytes() for known in expected):
        return
    source = "host_key:" if endpoint.host_key is not None else endpoint.known_hosts or "~/.ssh/known_hosts"
    raise NotTrusted(
        str(endpoint),
        "host_key_changed",
        f"it shows {shown.get_name()} {fingerprint(shown)}, {source} says {_fingerprints(expected)}",
        "somebody may stand in between. If the host was reinstalled, check its fingerprint there and replace it",
    )


def algorithms(expected: tuple[paramiko.PKey, ...], offered: tuple[str, ...]) -> list[str]:
    """Returns `offered` with those first that show an expected key: a host has several, and shows one."""
    names = {name for key in expected for name in _names(key)}
    return sorted(offered, key=lambda name: name not in names)


def fingerprint(key: paramiko.PKey) -> str:
    """Returns a key's fingerprint as ssh-keygen -l prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"SHA256:{digest}"


def parse_public_key(text: str) -> paramiko.PKey:
    """Returns the key that a line like `ssh-ed25519 AAAA… comment` holds. Raises ValueError when it holds none."""
    words = text.split()
    try:
        return paramiko.PKey.from_type_string(words[0], base64.b64decode(words[1], validate=True))
    except (IndexError, ValueError, paramiko.SSHException, UnknownKeyType) as error:
        raise ValueError(
            f"{text[:60]!r} is no public key: write its type and base64, as known_hosts has it"
        ) from error


def _pinned(endpoint: Endpoint, text: str) -> paramiko.PKey:
    try:
        return parse_public_key(text)
    except ValueError as error:
        raise NotTrusted(str(endpoint), "host_key_unknown", f"host_key: {error}") from error


def _names(key: paramiko.PKey) -> tuple[str, ...]:
    return ("rsa-sha2-512", "rsa-sha2-256") if key.get_name() == "ssh-rsa" else (key.get_name(),)


def _name(endpoint: Endpoint) -> str:
    return endpoint.address if endpoint.port == 22 else f"[{endpoint.address}]:{endpoint.port}"


def _fingerprints(keys: tuple[paramiko.PKey, ...]) -> str:
    return " or ".join(f"{key.get_name()} {fingerprint(key)}" for key in keys)


def _version(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class _Line:
    """A line of known_hosts: patterns (or hashes) of names, a key, and whether it is revoked."""

    patterns: tuple[str, ...]
    key: paramiko.PKey
    revoked: bool

    def names(self, name: str) -> bool:
        """Says whether the line speaks of a host."""
        if any(fnmatchcase(name, pattern[1:]) for pattern in self.patterns if pattern.startswith("!")):
            return False
        return any(
            paramiko.HostKeys.hash_host(name, pattern) == pattern
            if pattern.startswith("|1|")
            else fnmatchcase(name, pattern.replace("[", "[[]"))
            for pattern in self.patterns
        )


@lru_cache(maxsize=16)
def _known_hosts(file: Path, version: tuple[int, int]) -> tuple[_Line, ...]:
    """Reads the file once for all hosts; lines that hold no key we can use are passed over, as ssh does."""
    if version == (0, 0):
        return ()
    lines = []
    for text in file.read_text(errors="replace").splitlines():
        marker, _, rest = text.strip().partition(" ") if text.startswith("@") else ("", "", text.strip())
        names, _, key = rest.partition(" ")
        if rest.startswith("#") or marker not in ("", "@revoked"):
            continue
        with suppress(ValueError):
            lines.append(_Line(tuple(names.split(",")), parse_public_key(key), marker == "@revoked"))
    return tuple(lines)
