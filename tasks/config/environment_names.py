"""Ranges and names of buckets that look right, and that Google gives to nobody."""

from __future__ import annotations

import ipaddress
import re

_NEVER = [ipaddress.IPv4Network(one) for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")]
"""Ranges that no subnetwork can have."""


def wrong_range(given: str) -> str:
    """Returns why a range can be nobody's in a subnetwork; empty: it can."""
    found = ipaddress.IPv4Network(given)
    taken = next((one for one in _NEVER if one.overlaps(found)), None)
    return f"{given} is in {taken}, which no network may use: take one of 10.0.0.0/8, say" if taken else ""


def wrong_bucket(name: str) -> str:
    """Returns why no bucket can be called so; empty: one can."""
    if name.startswith("goog") or "google" in name or "g00gle" in name:
        return f"{name}: names that begin with goog, or have google in them, are Google's own"
    if re.fullmatch(r"\d+\.\d+\.\d+\.\d+", name):
        return f"{name} is an address, and no bucket may be called like one"
    return ""
