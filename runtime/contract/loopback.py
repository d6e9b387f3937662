"""Whether a host is this machine itself: what goes there in the clear, nobody on the way hears or changes."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Says so of a name or an address without brackets and port. Nobody is asked: of names, localhost alone is one."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
