"""Lengths of time: what may be written, and how it is told."""

from __future__ import annotations

import pytest

from tasks.config.duration import in_words, seconds


@pytest.mark.parametrize(
    ("text", "length_s", "told"),
    [
        ("90s", 90, "1.5 min"),
        ("30m", 1800, "30 min"),
        ("4h", 14400, "4 h"),
        ("1.5d", 129600, "1.5 d"),
        ("5s", 5, "5 s"),
    ],
)
def test_what_is_written_and_told(text: str, length_s: float, told: str) -> None:
    assert seconds(text) == length_s
    assert in_words(length_s) == told


@pytest.mark.parametrize("text", ["", "4", "h", "4 h", "-4h", "4w", "4h30m", "4h "])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s"):
        seconds(text)
