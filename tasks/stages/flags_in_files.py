"""Rewords what a run is refused for, for somebody who wrote a file: there are keys, and no flags."""

from __future__ import annotations

import re
from dataclasses import replace

from runtime.contract.errors import Problem

_ONE = re.compile(r"--set (?:'([^']*)'|(\S+?)(?=,?(?:\s|$)))")
_ALL = re.compile(rf"{_ONE.pattern}(?: {_ONE.pattern})*")
"""How a fix names overrides of a suite: one of them, and all that follow each other."""

_KEYS = (
    ("--stop-after-checkpoints ", "checkpoints: "),
    ("choose another --output", "change output:"),
    ("--output gs://", "output: gs://"),
)


def as_keys(problem: Problem, where: str = "the target file") -> Problem:
    """Returns the same problem in the words of a file that has set:, output: and checkpoints:. `where`: its target."""
    what, fix = problem.what, overrides_as_key(problem.fix)
    for flag, key in _KEYS:
        what, fix = what.replace(flag, key), fix.replace(flag, key)
    if where != "the target file":
        fix = fix.replace("the target file", f"the {where}")
    return replace(problem, what=what, fix=fix)


def overrides_as_key(fix: str, of: str = "") -> str:
    """Returns a fix that names overrides as a key of a file; `of`: what is said of that key."""

    def key(flags: re.Match[str]) -> str:
        given = ", ".join(f'"{quoted or plain}"' for quoted, plain in _ONE.findall(flags[0]))
        return f"set: [{given}]{of}"

    return _ALL.sub(key, fix)
