"""Values of secrets and what a terminal would obey are taken out of any text; everything else stays."""

from __future__ import annotations

import base64
import json
import os
import shlex
import urllib.parse

import pytest

from runtime.contract.progress import Deadline, Log, PointPhase
from runtime.contract.redaction import Redaction, clean, secret_names

SECRET = "pa$$ wörd/+&'\"\\1"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("colours \x1b[1;31mred\x1b[0m\x1b[K", "colours red"),
        ("title \x1b]0;pwned\x07 link \x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "title  link here"),
        ("clear \x1b[2J\x1b[H\x1bc\x1b(B\x1b#8\x1bP1$r\x1b\\", "clear "),
        ("8 bits \x9b2J\x9d0;t\x9c", "8 bits 0;t"),
        ("unfinished \x1b[ \x1b]0;t", "unfinished  0;t"),
        ("no\x00 be\x07ll, back\x08space, re\rturn, \x7f", "no bell, backspace, return, "),
        ("one\x0bline\x0c of\x1c\x85 a \u2028log", "oneline of a log"),
        ("turned \u202etxt.exe\u202c\u2066", "turned txt.exe"),
        ("tab\tand\nline feed, é 漢字 👩‍🚀 עברית", "tab\tand\nline feed, é 漢字 👩‍🚀 עברית"),
    ],
)
def test_escapes_and_control_characters_go_and_text_stays(said: str, left: str) -> None:
    assert clean(said) == Redaction()(said) == left


def test_no_escape_is_left_whatever_is_thrown_at_it() -> None:
    for seed in range(200):
        noise = bytes(byte % 128 for byte in os.urandom(400)) + b"\x1b[\x1b]\x1b\x1b[0m" * (seed % 3)
        text = clean(noise.decode())
        assert all(letter.isprintable() or letter in "\n\t" for letter in text)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False),
        repr([SECRET]),
        f"https://user:{urllib.parse.quote(SECRET, safe='')}@host/",
        f"https://host/?token={urllib.parse.quote_plus(SECRET)}",
        f"https://host/{urllib.parse.quote(SECRET)}",
        f"{SECRET[:5]}\x1b[0m{SECRET[5:]}",
        f"{SECRET[:5]}\x00{SECRET[5:]}",
    ],
)
def test_a_secret_is_found_as_it_is_and_as_programs_print_it(form: str) -> None:
    told = Redaction([SECRET])(f"before {form} after")
    assert "(redacted)" in told
    assert told.startswith("before ") and told.endswith(" after")
    assert "wörd" not in told and "w%C3%B6rd" not in told and "u00f6" not in told


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("tail", ["", "x", "yz"])
def test_a_secret_is_found_within_base64(user: str, tail: str) -> None:
    secret = "correct-horse-battery"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        header = encode(f"{user}{secret}{tail}".encode()).decode()
        told = Redaction([secret])(f"Authorization: Basic {header}")
        left = told.removeprefix("Authorization: Basic ").replace("(redacted)", "")
        assert "(redacted)" in told and len(left) <= len(header) - len(secret)


def test_short_values_are_not_looked_for() -> None:
    assert Redaction(["", "1", "true", "12345"])("1 of 12345: true") == "1 of 12345: true"


def test_of_values_within_each_other_the_longest_goes() -> None:
    assert Redaction(["abcdef", "abcdefgh"])("abcdefgh abcdef") == "(redacted) (redacted)"


def test_a_secret_of_several_lines_is_found_line_by_line() -> None:
    key = "-----BEGIN KEY-----\r\nMIIEpAIBAAKC\nAQEA7bq\n-----END KEY-----\n"
    redact = Redaction([key])
    assert redact("MIIEpAIBAAKC") == redact("  AQEA7bq").strip() == "(redacted)"
    assert redact(f"it is {key}").replace("(redacted)", "").split() == ["it", "is"]


def test_special_characters_of_patterns_stand_for_themselves() -> None:
    assert Redaction([".*+?()[]"])("anything .*+?()[] else") == "anything (redacted) else"


def test_names_come_from_the_environment() -> None:
    variables = {
        "SLICEBENCH_SECRET_ENV": "TOKEN, MINE\nGONE",
        "TOKEN": "abcdef",
        "MINE": "ghijkl",
        "PATH": "/usr/bin",
    }
    assert secret_names(variables) == {"TOKEN", "MINE", "GONE"}
    assert Redaction.of_environment(variables)("abcdef ghijkl /usr/bin") == "(redacted) (redacted) /usr/bin"


def test_of_a_record_only_words_for_people_are_touched() -> None:
    redact = Redaction(["secret", "passed", "stdout"])
    assert redact.record(Log("a secret\x1b[2J", "stdout")) == Log("a (redacted)", "stdout")
    said = PointPhase("end", 0, 1, "B\x07", "secret", status="passed", cause="secret")
    assert redact.record(said) == PointPhase("end", 0, 1, "B", "secret", status="passed", cause="(redacted)")
    plain = Deadline("run", 0, 1.0)
    assert redact.record(plain) is plain


def test_a_quoted_word_of_a_command_line_is_found() -> None:
    assert Redaction(["two words"])(shlex.join(["run", "two words"])) == "run '(redacted)'"
