"""What tests of flows and of the command share: a stand-in for a Prefect server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.flows.prefect_stub import PrefectStub


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrefectStub]:
    """A stand-in, known to the command by PREFECT_API_URL."""
    stub = PrefectStub()
    monkeypatch.setenv("PREFECT_API_URL", stub.url)
    yield stub
    stub.close()
