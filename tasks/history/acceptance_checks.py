"""What an acceptance proves of a variant: where it went on, its losses, what the bucket holds. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from runtime.contract.counting import counted
from tasks.history.acceptance import Check, Start

RESUMED = "goes on from the newest complete checkpoint"
LOSSES = "the loss goes on as without the stop"
SEALED = "what lies in the bucket is not the plaintext"
AROUND = "reading around the proxy fails"

_PLAIN_STARTS: Mapping[bytes, str] = {
    b"\x0c\xdb\x3a\x2a": "an OCDBT database",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x1f\x8b": "gzip",
    b"\x02\x01": "Blosc",
    b"{": "JSON",
    b"[": "JSON",
    b"PK\x03\x04": "a zip archive",
    b"\x93NUMPY": "a NumPy array",
    b"PAR1": "Parquet",
}
_SURE_BY_START = 4
"""Bytes from which on a beginning is no chance; shorter ones count only where all of the object agrees."""

_TEXT = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}
_ENOUGH = 256
"""Bytes from which on it is looked at how often each of them occurs."""

_UNEVEN = 255 + 8 * math.sqrt(2 * 255)
"""Chi-squared of 256 counts that no ciphertext reaches: eight standard deviations above what is expected."""

_WINDOW = 32
"""Bytes in a row that ciphertext and plaintext never share by chance."""


def went_on(repeats: Sequence[Sequence[Start]]) -> Check:
    """Proves of each start but the first that it restored the newest step that was complete, and no other."""
    later = [start for repeat in repeats for start in repeat[1:]]
    if not later:
        return Check(RESUMED, None, "it was never started again")
    for start in later:
        if start.newest is None:
            return Check(RESUMED, None, "no checkpoint was complete when it was stopped")
        if start.resumed is None:
            return Check(RESUMED, False, f"it began anew, and step {start.newest} was complete")
        if start.resumed != start.newest:
            what = f"it went on from step {start.resumed}, and the newest complete one was {start.newest}"
            return Check(RESUMED, False, what)
    return Check(RESUMED, True, f"from step {', '.join(str(start.resumed) for start in later)}")


def losses_go_on(
    repeats: Sequence[Sequence[Start]], known: Mapping[int, float] | None = None, tolerance: float = 0.0
) -> Check:
    """Proves that losses after a restart are those of training that was not stopped there.

    They are held against those of the starts before, which had got further than their checkpoint, and against `known`:
    of the same training without a stop. `tolerance`: a fraction of the loss; zero: every bit is the same.
    """
    compared: set[int] = set()
    for repeat in repeats:
        expected = [known or {}]
        for number, start in enumerate(repeat):
            if number and (wrong := _unlike(start, expected, tolerance, compared)):
                return Check(LOSSES, False, wrong)
            expected.append(start.losses)
    if not compared:
        return Check(LOSSES, None, "no step after a restart was done without one too")
    same = "equal to the bit" if tolerance == 0 else f"equal within {100 * tolerance:g} %"
    return Check(LOSSES, True, f"{counted(len(compared), 'step')} {same}")


def _unlike(
    start: Start, expected: Sequence[Mapping[int, float]], tolerance: float, compared: set[int]
) -> str:
    """Says what of a start after a stop is not as it has to be; empty: nothing. Steps that are go to `compared`."""
    if start.resumed is not None and (early := [step for step in start.losses if step <= start.resumed]):
        return f"it says to go on from step {start.resumed}, and did step {min(early)} again"
    for step, loss in sorted(start.losses.items()):
        for told in (one[step] for one in expected if step in one):
            if not _same(loss, told, tolerance):
                return f"step {step}: {loss!r}, and {told!r} without the stop"
            compared.add(step)
    return ""


def sealed(objects: Iterable[tuple[str, bytes, bytes | None]]) -> Check:
    """Proves that objects are not their plaintext: name, bytes as the bucket has them, and, where known, plaintext."""
    looked = 0
    for name, stored, plain in objects:
        if (shown := plaintext_in(stored, plain)) is not None:
            return Check(SEALED, False, f"{name}: {shown}")
        looked += bool(stored)
    if not looked:
        return Check(SEALED, None, "there was no object to look at")
    return Check(SEALED, True, f"{counted(looked, 'object')} looked at")


def plaintext_in(stored: bytes, plain: bytes | None = None) -> str | None:
    """Says how bytes show that they are not encrypted; None: they do not."""
    if plain and (stored == plain or _share(stored, plain)):
        return "it holds what was saved, as it was saved"
    for start, kind in _PLAIN_STARTS.items():
        if stored.startswith(start) and len(start) >= _SURE_BY_START:
            return f"it is {kind}"
    if len(stored) >= 16 and _TEXT.issuperset(stored):
        return "it is text"
    if len(stored) >= _ENOUGH and _unevenness(stored) > _UNEVEN:
        kind = next((kind for start, kind in _PLAIN_STARTS.items() if stored.startswith(start)), "")
        return f"its bytes are not as even as those of ciphertext{f': {kind}, maybe' if kind else ''}"
    return None


def read_around(restored: bool, said: str) -> Check:
    """Proves that a restore without the proxy fails. `said`: what it ended with, one line."""
    return Check(AROUND, not restored, said if not restored else "it was restored without the proxy")


def _same(here: float, there: float, tolerance: float) -> bool:
    if tolerance == 0:
        return here == there
    return math.isclose(here, there, rel_tol=tolerance)


def _share(stored: bytes, plain: bytes) -> bool:
    """Whether bytes have a run in common that they cannot have by chance; runs of one byte alone tell nothing."""
    runs = (plain[place : place + _WINDOW] for place in range(0, len(plain) - _WINDOW + 1, _WINDOW))
    return any(len(set(run)) > 1 and run in stored for run in runs)


def _unevenness(content: bytes) -> float:
    """Returns how far the counts of the 256 bytes are from being equal, as chi-squared."""
    expected = len(content) / 256
    return sum((content.count(byte) - expected) ** 2 for byte in range(256)) / expected
