"""Endpoint: whom to connect to over SSH, and with what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """One host. `keys` are private key files, offered in order and nothing else, but for `agent`'s and
    those in ~/.ssh (`default_keys`).

    `host_key` ("ssh-ed25519 AAAA…") pins the host; without it `known_hosts`, a file, must know it. `jump` is
    the host through which this one is reached; it is verified likewise. `proxy` is a command whose input and output
    are the connection. Holds no secret.
    """

    address: str
    user: str
    port: int = 22
    keys: tuple[str, ...] = ()
    host_key: str | None = None
    known_hosts: str | None = None
    agent: bool = False
    default_keys: bool = False
    jump: Endpoint | None = None
    proxy: tuple[str, ...] = ()

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}:{self.port}"


@dataclass(frozen=True)
class Host:
    """A host as slicebench uses it: how to get there, its Python, and the folder for what slicebench puts there.

    `python` None: `python3`. Both may begin with `~/`, which is the user's home there.
    """

    endpoint: Endpoint
    python: str | None = None
    folder: str = "~/.slicebench"

    def __str__(self) -> str:
        return str(self.endpoint)
