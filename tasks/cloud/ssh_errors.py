"""What can go wrong with a host over SSH, sorted by what to do next.

SshError
├── Unreachable    nobody answers, or the link broke: dial again, later
├── NotTrusted     its host key is unknown or another one: a person has to look; never try again
├── NotAdmitted    it refuses our key: correct key, user or agent
└── Unfit          it is there but cannot do it: no space, no Python, no permission
"""

from __future__ import annotations

from typing import Literal

from runtime.contract.errors import InfrastructureError

Reason = Literal[
    "unreachable",
    "timeout",
    "refused",
    "lost",
    "no_banner",
    "no_such_name",
    "host_key_unknown",
    "host_key_changed",
    "host_key_revoked",
    "public_key_denied",
    "key_unreadable",
    "agent_refused",
    "no_space",
    "python_missing",
    "permission",
    "failed",
]


class SshError(InfrastructureError):
    """A host failed us. `host` is `user@address:port`, `reason` one word for programs, the text is for people."""

    def __init__(self, host: str, reason: Reason, what: str, fix: str = "") -> None:
        super().__init__(f"{host}: {what}" + (f"; {fix}" if fix else ""))
        self.host, self.reason, self.what, self.fix = host, reason, what, fix


class Unreachable(SshError):
    """Nobody answers, or the link broke."""


class NotTrusted(SshError):
    """The host's key is not the one we know."""


class NotAdmitted(SshError):
    """The host does not let us in."""


class Unfit(SshError):
    """The host answers but cannot do what is asked."""
