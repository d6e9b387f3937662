"""Which hosts are this machine itself, by what they are called alone."""

from __future__ import annotations

import pytest

from runtime.contract.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "127.0.0.1.nip.io"]
)
def test_any_other(host: str) -> None:
    assert not is_loopback(host)
