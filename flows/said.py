"""How commands speak: what was asked for on stdout, by --json as one object; what happens meanwhile on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any


def say(*lines: str) -> None:
    """Tells people, at once: whoever looks may be waiting for it."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def print_json(content: Mapping[str, Any]) -> None:
    """Prints one object, on one line, for programs. What JSON does not know is written as its text."""
    print(json.dumps(content, default=str))
