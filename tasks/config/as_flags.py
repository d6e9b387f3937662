"""What was given as flags of a command, told in the flags' own spelling."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.config.findings import Keys, Written
from tasks.config.wording import spelled


@dataclass(frozen=True)
class Flags(Written):
    """`names`: flags that are not called as their fields are, by the fields' paths with dots, of all or of their begin.

    `words`: names of fields that stand for their flags where a sentence of the model speaks of them. `units` are what
    numbers of a flag count, `asks` what a flag asks for that says more than its field: both by the flag.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    words: Collection[str] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)

    def name(self, path: Keys) -> str:
        """See Written."""
        parts = [str(part) for part in path]
        for end in range(len(parts), 0, -1):
            if flag := self.names.get(".".join(parts[:end])):
                return flag
        return f"--{parts[0].replace('_', '-')}" if parts else ""

    def value(self, given: Any) -> str:
        """See Written."""
        return str(given)

    def wants(self, path: Keys, wanted: str) -> str:
        """See Written."""
        flag = self.name(path)
        unit = self.units.get(flag)
        return self.asks.get(flag, wanted + (f" {unit}" if unit else ""))

    def sentence(self, told: str) -> str:
        """See Written."""
        return spelled(told, lambda word: self.name((word,)) if word in self.words else None)

    def add(self, name: str) -> str:
        """See Written."""
        return f"give {name}"
