"""Cutting output into lines: any pieces, progress bars, endless lines, bytes that are no text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.supervision.lines import LineSplitter


def split(*pieces: bytes, longest: int = 100) -> list[str]:
    splitter = LineSplitter(longest)
    return [line for piece in pieces for line in splitter.feed(piece)] + splitter.close()


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ((b"a\nb\n",), ["a", "b"]),
        ((b"a", b"b\nc"), ["ab", "c"]),
        ((b"\n\n",), ["", ""]),
        ((b"a\r\nb\r\n",), ["a", "b"]),
        ((b"a\r", b"\nb\n"), ["a", "b"]),
        ((b"10%\r20%\r30%\n",), ["30%"]),
        ((b"10%\r", b"20%\r", b"done\n"), ["done"]),
        ((b"\r10%\r20%",), ["20%"]),
        ((b"10%\r",), ["10%"]),
        (("é".encode()[:1], "é".encode()[1:] + b"\n"), ["é"]),
        ((b"\xff\x00\n",), ["\ufffd\x00"]),
        ((b"",), []),
    ],
)
def test_lines(pieces: tuple[bytes, ...], lines: list[str]) -> None:
    assert split(*pieces) == lines


def test_an_endless_line_is_cut_once() -> None:
    lines = split(b"x" * 60, b"x" * 60, b"x" * 60, b"\nnext\n")
    assert lines[0].startswith("x" * 100 + " …[")
    assert lines[1:] == ["", "next"] or lines[1:] == ["next"]


def test_a_progress_bar_never_grows() -> None:
    splitter = LineSplitter(100)
    for n in range(1000):
        assert splitter.feed(b"%d of 1000, and more words to fill the line\r" % n) == []
    assert splitter.feed(b"\n") == ["999 of 1000, and more words to fill the line"]


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert split(*pieces, longest=10_000) == split(b"".join(pieces), longest=10_000)


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)))
def test_text_comes_out_as_it_went_in(lines: list[str]) -> None:
    assert split("".join(f"{line}\n" for line in lines).encode(), longest=10_000) == lines
