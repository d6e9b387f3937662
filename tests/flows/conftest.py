"""What tests of flows and of the command share: a stand-in for a Prefect server."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """Imports a module beside this file, which importlib mode does not put on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


prefect_stub = _load("prefect_stub")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[prefect_stub.PrefectStub]:  # type: ignore[name-defined]
    """A stand-in, known to the command by PREFECT_API_URL."""
    stub = prefect_stub.PrefectStub()
    monkeypatch.setenv("PREFECT_API_URL", stub.url)
    yield stub
    stub.close()
