"""How a rule about troubles finds its words among the lines that were recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.explain.scene import Scene, Trouble

MOST_EVIDENCE = 3


def told(
    scene: Scene, name: str, pattern: str, what: str, commands: Sequence[str], unknown: str = ""
) -> Trouble | None:
    """Returns the trouble if some line says what the pattern does; the first lines that do are its evidence."""
    search = re.compile(pattern, re.IGNORECASE).search
    evidence = [line for line in scene.lines if search(line.text)][:MOST_EVIDENCE]
    return Trouble(name, what, evidence, tuple(commands), unknown) if evidence else None
