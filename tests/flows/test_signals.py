"""Signals to a command under way: told at once, then answered, then obeyed."""

from __future__ import annotations

import signal

import pytest

from flows.signals import interrupting


def test_each_signal_is_told_at_once_and_the_third_obeyed() -> None:
    told: list[str] = []
    with interrupting(told.append):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert told == ["SIGTERM: ending what is under way, a moment …"]
        signal.raise_signal(signal.SIGINT)
        assert "giving back" in told[1] and "once more: hurry" in told[1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert len(told) == 2


def test_what_is_done_meanwhile_is_said_in_the_commands_own_words() -> None:
    told: list[str] = []
    with interrupting(told.append, meanwhile="what was made stays"):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert told[1:] == ["what was made stays"]


def test_a_signal_in_the_middle_of_a_line_interrupts_all_the_same() -> None:
    def amid(line: str) -> None:
        raise RuntimeError("reentrant call")

    with interrupting(amid), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
