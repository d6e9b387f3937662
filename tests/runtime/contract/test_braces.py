"""Words in braces: those that are known are filled in, whatever else has braces in it is kept."""

from __future__ import annotations

import pytest

from runtime.contract.braces import filled, literally, unknown_word

KNOWN = {"port": 9081, "address": "{port}"}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("127.0.0.1:{port}", "127.0.0.1:9081"),
        ("{address}:{port}", "{port}:9081"),  # what it is filled with is not looked at again
        ("{{port}}", "{port}"),
        ("{{{port}}}", "{{port}}"),
        ("{{other}}", "{other}"),
        ("{other}", "{other}"),
        ('{"a": {"port": {}}}', '{"a": {"port": {}}}'),
        ('{"at": "{address}", "n": [{port}]}', '{"at": "{port}", "n": [9081]}'),
        ("${port} ${PORT} $port", "${port} ${PORT} $port"),  # a shell's
        ("{PORT} { port } {port-1} {} {{}}", "{PORT} { port } {port-1} {} {{}}"),
    ],
)
def test_known_words_are_filled_in_and_all_else_stays(text: str, becomes: str) -> None:
    assert filled(text, KNOWN) == becomes


@pytest.mark.parametrize(
    "text",
    ["", "{port}", "{{port}}", "{{{port}}}", "a{x}b{{y}}", "${port}", "${{port}}", '{"a":{"b":1}}', "{port"],
)
def test_what_is_meant_literally_comes_out_as_it_stands(text: str) -> None:
    assert filled(literally(text), KNOWN) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "{adress}:{port}",
            "{adress} is not a placeholder here: write {address}, or write {{adress}} for",
        ),
        ("{x}", "the placeholders are {address}, {port}, or write {{x}} for {x} itself"),
        ("{address}:{port}", ""),
        ("{{adress}}", ""),
        ("${adress}", ""),
        ('{"adress": {"b": {}}}', ""),
        ("awk '{print $1}'", ""),
    ],
)
def test_an_unknown_word_is_told_with_those_there_are(text: str, told: str) -> None:
    assert told in unknown_word(text, KNOWN) and bool(told) == bool(unknown_word(text, KNOWN))
