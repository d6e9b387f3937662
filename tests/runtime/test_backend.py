"""What JAX shall compute on is said before it starts, and nothing of the user's is lost."""

from __future__ import annotations

import pytest

from runtime import backend
from runtime.contract.errors import BadInput


def configured(platform: backend.Platform | None, devices: int | None, **environ: str) -> dict[str, str]:
    backend.configure(environ, platform=platform, devices=devices)
    return environ


def test_cpu_devices_replace_the_older_flag_only() -> None:
    flags = "--xla_force_host_platform_device_count=8 --xla_cpu_use_thunk_runtime=false"
    environ = configured("cpu", 4, XLA_FLAGS=flags)
    assert environ["JAX_PLATFORMS"] == "cpu"
    assert environ["JAX_NUM_CPU_DEVICES"] == "4"
    assert environ["XLA_FLAGS"] == "--xla_cpu_use_thunk_runtime=false"


def test_an_accelerator_keeps_the_cpu_beside_it() -> None:
    assert configured("gpu", None)["JAX_PLATFORMS"] == "cuda,cpu"


def test_without_a_platform_nothing_is_set() -> None:
    assert configured(None, None, JAX_PLATFORMS="rocm") == {"JAX_PLATFORMS": "rocm"}


def test_devices_without_a_platform_are_refused() -> None:
    with pytest.raises(BadInput, match="--platform"):
        configured(None, 4)


def test_a_wrong_number_of_devices_is_refused() -> None:
    import jax

    backend.expect_devices(jax.local_device_count())
    with pytest.raises(BadInput, match="was to have 77 devices"):
        backend.expect_devices(77)
