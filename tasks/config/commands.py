"""Our own commands as people are told them: they can be typed as they are, and leave out what goes without saying."""

from __future__ import annotations

import shlex

from tasks.config.home import runs_folder


def output_words(output: str) -> list[str]:
    """Returns the flag that names an output, none for the usual one."""
    return [] if output == str(runs_folder()) else ["--output", output]


def run_words(run_uri: str) -> str:
    """Returns the run that lies there as all commands take it: its id, and where it lies if need be."""
    output, _, run_id = run_uri.rpartition("/")
    return shlex.join([run_id, *output_words(output)])


def resume(run_uri: str, *more: str) -> str:
    """Returns the command that goes on with the run that lies there."""
    output, _, run_id = run_uri.rpartition("/")
    return shlex.join(["slicebench", "run", "--resume", run_id, *more, *output_words(output)])
