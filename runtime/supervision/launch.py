"""Becomes the worker: asks the kernel to be killed when the supervisor dies, then runs the command.

A process of its own because code may not run safely between fork and exec of a program with threads.
"""

from __future__ import annotations

import os
import sys

from runtime.supervision.processes import die_with_parent


def main() -> None:
    """`python -m runtime.supervision.launch PARENT COMMAND…`; exits with 127 when the command cannot be run."""
    parent, *command = sys.argv[1:]
    die_with_parent(int(parent))
    try:
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


if __name__ == "__main__":
    main()
