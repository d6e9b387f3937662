"""Identity-Aware Proxy: the way to workers without external addresses, from outside their network.

Google documents gcloud as the way into such a tunnel, and not the tunnel's own protocol; so it is gcloud that is run.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from runtime.contract.errors import Problem

_GCLOUD = "gcloud"
_ASK_S = 30.0


def tunnel(project: str, zone: str, instance: str, port: int) -> Sequence[str]:
    """Returns the command whose input and output are a connection to a port of an instance."""
    return (
        _GCLOUD, "compute", "start-iap-tunnel", instance, str(port), "--listen-on-stdin",
        f"--project={project}", f"--zone={zone}", "--verbosity=warning",
    )  # fmt: skip


def lacking() -> list[Problem]:
    """Returns what this machine lacks for tunnels: gcloud, or somebody logged in to it. It has logins of its own."""
    if shutil.which(_GCLOUD) is None:
        fix = "install the Google Cloud CLI, or use addresses: internal from inside the network"
        return [
            Problem("error", None, "Identity-Aware Proxy needs gcloud, which is not on the PATH", fix=fix)
        ]
    try:
        asked = subprocess.run(
            [_GCLOUD, "auth", "list", "--filter=status:ACTIVE", "--format=value(account)"],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return [
            Problem("error", None, f"gcloud auth list gave no answer within {_ASK_S:g} s", fix="try again")
        ]
    if asked.returncode == 0 and asked.stdout.strip():
        return []
    why = " ".join(asked.stderr.split())[-200:]
    what = "Identity-Aware Proxy needs gcloud, and nobody is logged in to it"
    return [Problem("error", None, what, why, fix="gcloud auth login")]
