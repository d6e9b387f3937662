"""Names of what we make in a cloud: from lease and part, legal and within the limit, the same each time."""

from __future__ import annotations

import re

from runtime.contract.errors import Problem

LONGEST = 63
"""Characters that a TPU node or queued resource may have in its name."""

_ID = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def name_of(lease_id: str, part: str = "", longest: int = LONGEST) -> str:
    """Returns the name of a part of what a lease makes; one that is too long keeps its ends and a hash of itself."""
    whole = "-".join(piece for piece in ("sb", lease_id, part) if piece)
    legal = re.sub(r"[^a-z0-9]+", "-", whole.lower()).strip("-")
    if len(legal) <= longest:
        return legal
    import hashlib

    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    tail = f"-{digest}-{part}" if part else f"-{digest}"
    return legal[: longest - len(tail)].rstrip("-") + tail


def problem_with(name: str, longest: int = LONGEST, of: str = "a TPU") -> Problem | None:
    """Returns what is wrong with a name that somebody chose, or None."""
    if len(name) > longest:
        what = f"the name {name!r} has {len(name)} characters, and at most {longest} are allowed"
        return Problem("error", None, what, fix="choose a shorter one")
    if not _ID.fullmatch(name):
        legal = re.sub(r"[^a-z0-9]+", "-", name.lower()).lstrip("-0123456789").rstrip("-") or "mine"
        what = f"{name!r} cannot be the name of {of}"
        return Problem("error", None, what, "a letter, then a-z, 0-9 and -", f"for example {legal!r}")
    return None
