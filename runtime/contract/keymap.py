"""Which objects are encrypted and by which key: bucket[/prefix]:key, the longest prefix wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.contract.errors import BadInput, Problem

KMS, FILE = "gcp-kms://", "file:"
EVERY = "*"

_ENTRY = re.compile(r"(?P<where>.*?):(?P<key>(?:gcp-kms://|file:|projects/).*)", re.DOTALL)
_KMS_KEY = re.compile(r"projects/[^/]+/locations/[\w-]{1,63}/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_FIX = (
    "write bucket[/prefix]:key,…, each key as projects/P/locations/L/keyRings/R/cryptoKeys/K or "
    "file:/path/to/keyset.json"
)


@dataclass(frozen=True)
class KeyRef:
    """A key. `uri` is what objects say of it: of a file its name alone, for it may lie elsewhere on another machine."""

    uri: str
    path: Path | None = None


@dataclass(frozen=True)
class KeyMap:
    """Entries (bucket, prefix, key); the bucket is * in the one that holds for all others."""

    entries: tuple[tuple[str, str, KeyRef], ...] = ()

    def key(self, bucket: str, name: str) -> KeyRef | None:
        """Returns the key that objects of this place are encrypted with; None where they are not."""
        fitting = [
            entry
            for entry in self.entries
            if entry[0] == EVERY or (entry[0] == bucket and name.startswith(entry[1]))
        ]
        # What names the bucket wins over *, and the longest prefix over others.
        return max(fitting, key=lambda entry: (entry[0] != EVERY, len(entry[1])))[2] if fitting else None

    def touches(self, bucket: str) -> bool:
        """Tells whether any object of a bucket is encrypted."""
        return any(entry[0] in (EVERY, bucket) for entry in self.entries)

    def touches_below(self, bucket: str, prefix: str) -> bool:
        """Tells whether any object of a bucket whose name begins so is encrypted."""
        return any(
            entry[0] == EVERY
            or (entry[0] == bucket and (entry[1].startswith(prefix) or prefix.startswith(entry[1])))
            for entry in self.entries
        )

    @property
    def keys(self) -> tuple[KeyRef, ...]:
        """All keys, each once."""
        return tuple(dict.fromkeys(key for _, _, key in self.entries))


def parse_key(text: str) -> KeyRef:
    """Returns the key that a text names. Raises BadInput."""
    text = text.strip()
    if text.startswith(FILE):
        path = Path(text.removeprefix(FILE).removeprefix("//"))
        if not path.is_absolute():
            raise BadInput(f"the key file {text!r} has no absolute path", fix=_FIX)
        return KeyRef(FILE + path.name, path)
    name = text.removeprefix(KMS)
    if not _KMS_KEY.fullmatch(name):
        about = "names a version: Cloud KMS chooses it itself" if "cryptoKeyVersions" in name else "is no key"
        raise BadInput(f"{text!r} {about}", fix=_FIX)
    return KeyRef(KMS + name)


def parse_key_map(text: str) -> KeyMap:
    """Returns the map of a text, in go-gcsproxy's form. Raises BadInput with all that is wrong with it."""
    entries: list[tuple[str, str, KeyRef]] = []
    problems: list[Problem] = []
    seen: dict[tuple[str, str], str] = {}
    for part in text.split(","):
        try:
            bucket, prefix, key = _entry(part.strip())
            if (bucket, prefix) in seen:
                raise BadInput(f"{seen[bucket, prefix]!r} and {part.strip()!r} are of the same place")
            seen[bucket, prefix] = part.strip()
            entries.append((bucket, prefix, key))
        except BadInput as error:
            problems += error.problems
    problems += _ambiguous([key for *_, key in entries])
    if problems:
        raise BadInput(problems)
    return KeyMap(tuple(entries))


def _entry(text: str) -> tuple[str, str, KeyRef]:
    if not text:
        raise BadInput("the key map has an empty entry", fix=_FIX)
    found = _ENTRY.fullmatch(text)
    if not found:
        raise BadInput(f"{text!r} is no entry of a key map", fix=_FIX)
    bucket, _, prefix = found["where"].removeprefix("gs://").partition("/")
    if bucket == EVERY and prefix:
        raise BadInput(f"{text!r}: * has no prefix", fix=_FIX)
    if bucket != EVERY and not _BUCKET.fullmatch(bucket):
        raise BadInput(f"{text!r}: {bucket!r} cannot be a bucket's name", fix=_FIX)
    return bucket, prefix, parse_key(found["key"])


def _ambiguous(keys: Sequence[KeyRef]) -> list[Problem]:
    """Objects tell key files by their names: two of one name would be taken for each other."""
    paths: dict[str, Path] = {}
    problems = []
    for key in keys:
        if key.path and paths.setdefault(key.uri, key.path) != key.path:
            what = f"the key files {paths[key.uri]} and {key.path} have the same name"
            problems.append(Problem("error", None, what, fix="rename one: objects record the name"))
    return problems
