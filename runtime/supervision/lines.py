"""Cuts what a program writes into lines: progress bars, endless lines and bytes that are no text included."""

from __future__ import annotations

LONGEST_LINE = 1 << 20
"""Bytes of a line that are kept."""

_CUT = " …[the line is longer than 1 MiB and was cut here]"


class LineSplitter:
    """Takes bytes as they come, gives whole lines of text. Holds no more than one line of LONGEST_LINE bytes.

    A carriage return starts the line again, as on a terminal: of a progress bar the last state is kept.
    What is not UTF-8 becomes U+FFFD.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held = bytearray()
        self._swallowing = False  # the rest of a line that was cut
        self._returned = False  # a carriage return came last: a newline may follow

    def feed(self, data: bytes) -> list[str]:
        """Returns the lines that these bytes complete."""
        lines: list[str] = []
        start = 0
        while start < len(data):
            newline = data.find(b"\n", start)
            end = len(data) if newline < 0 else newline
            self._take(data[start:end], lines)
            if newline >= 0:
                if not self._swallowing:
                    lines.append(self._text())
                self._reset()
            start = end + 1
        return lines

    def close(self) -> list[str]:
        """Returns what is left when the program closed its end: a line without a newline."""
        rest = [self._text()] if self._held and not self._swallowing else []
        self._reset()
        return rest

    def _take(self, piece: bytes, lines: list[str]) -> None:
        for count, state in enumerate(piece.split(b"\r")):
            if count:
                self._returned = True
            if not state:
                continue
            if self._returned:
                self._reset()
            self._add(state, lines)

    def _add(self, state: bytes, lines: list[str]) -> None:
        if self._swallowing:
            return
        self._held += state
        if len(self._held) > self._longest:
            del self._held[self._longest :]
            lines.append(self._text() + _CUT)
            self._held.clear()
            self._swallowing = True

    def _text(self) -> str:
        return self._held.decode("utf-8", "replace")

    def _reset(self) -> None:
        self._held.clear()
        self._swallowing = self._returned = False
