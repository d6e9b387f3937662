"""What an operation is to whoever reads results, by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Role = Literal["save", "wait", "restore", "recovery", "other"]
"""`save` blocks training; `wait` is what an asynchronous save does in the background; `restore` reads it back;
`recovery` is from the death of a worker until the first step after the restart."""

_ROLES: Sequence[tuple[Role, re.Pattern[str]]] = (
    ("wait", re.compile(r"(wait_until_finished|save_background)(_\d+)?")),
    ("save", re.compile(r"(save|save_blocking|serialize)(_\d+)?")),
    ("restore", re.compile(r"(restore|load|deserialize)(_\d+)?")),
    ("recovery", re.compile("recovery")),
)


def reads(operation: str) -> bool:
    """Says whether an operation reads a checkpoint, by its name."""
    return role_of(operation) == "restore" or operation.startswith("restore_after_")


def role_of(operation: str) -> Role:
    """Says what an operation is to the reader, by its name."""
    return next((role for role, pattern in _ROLES if pattern.fullmatch(operation)), "other")
