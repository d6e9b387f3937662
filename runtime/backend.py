"""Says what JAX shall compute on, before it is imported: afterwards its backend no longer listens."""

from __future__ import annotations

from collections.abc import MutableMapping

from runtime.contract.errors import BadInput
from runtime.contract.job import Platform

_PLATFORMS: dict[Platform, str] = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
"""JAX's names. The CPU stays beside an accelerator: programs put small things there."""


def configure(
    environ: MutableMapping[str, str],
    *,
    platform: Platform | None,
    devices: int | None,
) -> None:
    """Sets JAX's environment variables; what the user set for other things stays.

    `devices` is the number of CPU devices of this worker. Raises BadInput when they cannot be made.
    """
    if platform is not None:
        environ["JAX_PLATFORMS"] = _PLATFORMS[platform]
    if devices is not None and platform == "cpu":
        environ["JAX_NUM_CPU_DEVICES"] = str(devices)
        # The older way to say the same wins over the newer: two different numbers are an error of JAX's.
        flags = environ.get("XLA_FLAGS", "").split()
        environ["XLA_FLAGS"] = " ".join(flag for flag in flags if "host_platform_device_count" not in flag)
    elif devices is not None and platform is None:
        raise BadInput("--devices-per-worker without --platform", fix="add --platform cpu")


def expect_devices(devices: int | None) -> None:
    """Raises BadInput when this worker has another number of devices than it was promised."""
    import jax

    if devices is not None and jax.local_device_count() != devices:
        raise BadInput(
            f"this worker was to have {devices} devices and JAX finds {jax.local_device_count()}"
            f" of platform {jax.default_backend()}",
            fix="set the target's devices_per_worker to what the machine has",
        )
