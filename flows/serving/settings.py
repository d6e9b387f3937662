"""What slicebench starts Prefect with: its own home, no telemetry, loopback only, quiet; its work pools."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"

ROOT = Path(__file__).resolve().parents[2]
"""Of the checkout: what Prefect starts there finds flows and deployments."""

START_S = 600.0
"""A server and its workers import for half a minute of CPU: two busy cores have been seen to take four minutes."""

POOLS = {
    "slicebench": "Benchmarks.",
    "slicebench-nightly": "Nights and environments: they wait for long, and must not take the place of benchmarks.",
    "slicebench-reaper": "The reaper alone: it must get its turn when all benchmarks wait.",
}
"""Work pools, and what each is for."""

DATABASE = ("PREFECT_SERVER_DATABASE", "PREFECT_API_DATABASE")
"""How settings begin that say where a server keeps its data: the only ones of the user's that ours hears of."""

REFUSED = "refused: "
"""How a line begins in which a process that `up` starts says why it must not go on."""


def own_home_settings(folder: Path) -> dict[str, str]:
    """Returns settings under which Prefect reads and writes nothing of the user's own ~/.prefect."""
    return {
        "PREFECT_HOME": str(folder),
        "PREFECT_PROFILES_PATH": str(folder / "profiles.toml"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }


def auth_settings(auth_string: str) -> dict[str, str]:
    """Returns settings for a server that asks for the auth string and for clients that know it."""
    return {"PREFECT_SERVER_API_AUTH_STRING": auth_string, "PREFECT_API_AUTH_STRING": auth_string}


def new_auth_string() -> str:
    """Returns a new user name and password."""
    return f"slicebench:{secrets.token_urlsafe(24)}"


def without_prefect(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment without the user's settings of Prefect, which are meant for another server."""
    return {name: value for name, value in environ.items() if not name.startswith("PREFECT_")}


def free_port() -> int:
    """Returns a port on loopback that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
