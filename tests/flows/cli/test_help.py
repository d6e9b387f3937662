"""What --help says: of all commands their summaries, of one command all that its function says of itself."""

from __future__ import annotations

import re

import pytest

from flows.cli.main import main

SAID = {
    "acceptance --help": "Exit code 4: a variant costs more than the limit",
    "reap -h": "Exit code 5: something could not be proven gone",
    "env up --help": "Safe to repeat after a failure",
    "env up team --help": "Safe to repeat after a failure",
    "env --help": "Create the environment, or change it to match its file",
    "--help": "Delete hardware that outlived its lease.",
}


@pytest.mark.parametrize("words", SAID)
def test_help_of_a_command_says_all_of_it(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    assert SAID[words] in re.sub(r"[│\s]+", " ", capsys.readouterr().out)
