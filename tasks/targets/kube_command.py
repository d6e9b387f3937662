"""A command as people type it, as what a container runs: the program itself, or a shell that hands signals on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runtime.contract.quoting import words_of

_NEEDS_A_SHELL = re.compile(r"[\n;&|<>()`$*?\[\]{}~#!]|^\s*\w+=")
"""What in a line only a shell gives a meaning."""

# The line runs in a process group of its own, so that all of it hears a signal, not a shell alone; this shell does
# nothing but wait, which a signal ends, so that it hands that on at once. The line's own shell ends for a signal once
# the program that it runs has ended: when process 1 of a container ends, everything else is killed.
# What this shell says of its job's end is not heard: it would stand in the log as if the line had said it.
_SHELL = """\
exec 3>&2 2>/dev/null
set -m
bash -c 'trap "exit 143" TERM HUP; trap "exit 130" INT; trap : USR1 USR2; eval "$0"' "$0" 2>&3 3>&- & line=$!
for signal in TERM INT HUP USR1 USR2; do trap "kill -$signal -- -$line" $signal; done
while :; do
  wait "$line"; code=$?
  kill -0 "$line" || break
done
wait "$line"
exit $?
"""


def argv_of(command: str | Sequence[str]) -> list[str]:
    """Returns what a container runs for a command: words as they are; a line as one would type it into bash.

    A line that is one plain program is that program. Raises ValueError for a quotation that does not end.
    """
    if not isinstance(command, str):
        return list(command)
    if not _NEEDS_A_SHELL.search(_outside_of_quotes(command)):
        return words_of(command)
    return ["bash", "-c", _SHELL, command.strip()]


def _outside_of_quotes(line: str) -> str:
    """Returns a line without what stands in single quotes, where nothing has a meaning; in double ones $ and ` have."""
    plain = re.sub(r"'[^']*'", "''", line) if "'" in line else line
    return plain if '"' not in line else re.sub(r'"((?:[^"\\$`]|\\.)*)"', '""', plain)
