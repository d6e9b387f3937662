"""Tests of the runtime that use JAX do so on eight CPU devices of this process."""

from __future__ import annotations

import sys

import pytest

DEVICES = 8


@pytest.fixture(scope="session", autouse=True)
def eight_cpu_devices() -> None:
    """Sets up JAX once, before its backend starts, where a collected test has imported it."""
    if "jax" not in sys.modules:
        return
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    jax.config.update("jax_enable_x64", True)
