"""What a kubelet asks a container to find out whether it is up: from outside of its pod, or by a command inside."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

_ANSWER_S = 1.0

NODE, POD = "127.0.0.1", "127.0.0.2"
"""The kubelet's own loopback, and what stands for a pod's address: who listens at 127.0.0.1 is not reached there."""

Run = Callable[[list[str], float], bool]
"""Runs a command in a container for so many seconds at most, and says whether it ended well."""


def passes(probe: dict[str, Any], ports: Mapping[int, int], *, on_host: bool, run: Run) -> bool:
    """Says whether a probe passes now; `ports`: where those of the pod are on this machine. `on_host`: the pod is on
    the network of its host, and so its loopback is the kubelet's.
    """
    if command := probe.get("exec"):
        return run(list(command["command"]), float(probe.get("timeoutSeconds", 1)))
    asked = probe.get("httpGet") or probe.get("tcpSocket")
    if asked is None:
        raise NotImplementedError(f"the stand-in knows no such probe: {sorted(probe)}")
    host = asked.get("host", POD)
    if host not in (NODE, POD) or (host == NODE and not on_host):
        return False
    port = ports.get(asked["port"], asked["port"])
    if "tcpSocket" in probe:
        try:
            with socket.create_connection((host, port), _ANSWER_S):
                return True
        except OSError:
            return False
    try:
        url = f"http://{host}:{port}{asked.get('path', '/')}"
        with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
            return 200 <= int(answer.status) < 400
    except (OSError, urllib.error.URLError):
        return False
