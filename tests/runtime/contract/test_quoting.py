"""Words for a shell are those of the standard library's module, whether that is asked or not."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis.strategies import text

from runtime.contract.quoting import quoted, words_of


@given(text())
def test_a_word_is_quoted_as_the_module_does(word: str) -> None:
    assert quoted(word) == shlex.quote(word)


@given(text(alphabet="ab \t\n'\"\\#-=\u00a0"))
def test_a_line_is_read_as_the_module_does(line: str) -> None:
    try:
        words = shlex.split(line)
    except ValueError:
        with pytest.raises(ValueError, match="No "):
            words_of(line)
    else:
        assert words_of(line) == words
