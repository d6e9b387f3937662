"""A group of flags as a dataclass: its fields are flags of the command, shown under a title of their own."""

from __future__ import annotations

from cyclopts import Group, Parameter


def flattened(title: str, order: int) -> Parameter:
    """Returns what makes a dataclass such a group; what was not given is no default worth telling."""
    return Parameter(name="*", group=Group(title, sort_key=order), negative="", show_default=False)
