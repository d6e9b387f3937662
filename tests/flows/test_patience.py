"""Signals that come while a run gives things back."""

from __future__ import annotations

import os
import signal

import pytest

from flows.patience import undisturbed


def test_an_impatient_ctrl_c_is_answered_and_the_next_one_obeyed() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), undisturbed(said.append):
        os.kill(os.getpid(), signal.SIGINT)
        assert len(said) == 1
        assert "reap" in said[0]
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the second signal was not obeyed")


def test_afterwards_signals_mean_what_they_meant_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with undisturbed(lambda text: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
