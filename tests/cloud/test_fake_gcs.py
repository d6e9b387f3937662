"""Where the object store's program comes from: a machine without one skips its tests, and says how to get it."""

from __future__ import annotations

import platform

import pytest

from tests.cloud.fake_gcs import BINARY, binary


def test_a_platform_without_the_program_skips_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(
        pytest.skip.Exception, match=f"no fake-gcs-server-linux-riscv64 .* name it in {BINARY}"
    ):
        binary({})
    assert binary({BINARY: "/opt/fake-gcs-server"}) == "/opt/fake-gcs-server"
