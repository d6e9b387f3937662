"""Amounts of memory as people write them: 512MiB, 64GiB, 1TiB."""

from __future__ import annotations

import re

PATTERN = r"^([1-9]\d{0,9}(\.\d+)?\s?MiB|[1-9]\d{0,6}(\.\d+)?\s?GiB|[1-9]\d{0,3}(\.\d+)?\s?TiB)$"
"""What a field of a form must match."""

_BYTES = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def in_bytes(text: str) -> int:
    """Returns the bytes of an amount that matches PATTERN. Raises ValueError for another."""
    if not re.match(PATTERN, text):
        raise ValueError(f"{text!r} is no amount of memory: write 512MiB, 64GiB or 1TiB")
    return int(float(text[:-3]) * _BYTES[text[-3:]])
