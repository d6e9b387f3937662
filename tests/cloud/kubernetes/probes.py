"""What a kubelet asks a container to find out whether it is up."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_ANSWER_S = 1.0


def passes(probe: dict[str, Any], ports: Mapping[int, int]) -> bool:
    """Says whether a probe passes now; `ports`: where those of the pod are on this machine."""
    if http := probe.get("httpGet"):
        port = ports.get(http["port"], http["port"])
        try:
            url = f"http://127.0.0.1:{port}{http.get('path', '/')}"
            with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
                return 200 <= int(answer.status) < 400
        except (OSError, urllib.error.URLError):
            return False
    if tcp := probe.get("tcpSocket"):
        try:
            with socket.create_connection(("127.0.0.1", ports.get(tcp["port"], tcp["port"])), _ANSWER_S):
                return True
        except OSError:
            return False
    raise NotImplementedError(f"the stand-in knows no such probe: {sorted(probe)}")
