"""How a host's Python is asked, for tests that ask this machine's: a program's text, and a request to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOSTS = Path(__file__).parents[3] / "runtime" / "hosts"

COMMAND = (sys.executable, "-I", "-S", str(HOSTS / "answers.py"))


def asked(program: str, request: Mapping[str, Any]) -> str:
    """Returns what COMMAND reads to answer one request to a program."""
    text, words = (HOSTS / f"{program}.py").read_text(), json.dumps(request)
    return f"{program} {len(text.encode())} {len(words.encode())}\n{text}{words}"
