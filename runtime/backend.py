"""Says what JAX shall compute on, before it is imported: afterwards its backend no longer listens."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from runtime.contract.errors import BadInput
from runtime.contract.job import Platform
from runtime.contract.names import XLA_DUMPS_FOLDER

_PLATFORMS: dict[Platform, str] = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
"""JAX's names. The CPU stays beside an accelerator: programs put small things there."""


def configure(
    environ: MutableMapping[str, str],
    *,
    platform: Platform | None,
    devices: int | None,
    dumps: Path | None,
) -> None:
    """Sets JAX's environment variables; what the user set for other things stays.

    `devices` is the number of CPU devices of this worker; `dumps` a local folder for XLA's dumps, or None.

    Raises:
      BadInput: devices are asked for that cannot be made.
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
    if dumps is not None:
        dumps.mkdir(parents=True, exist_ok=True)
        dump = f"--xla_dump_to={dumps} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto"
        environ["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} {dump}".strip()
    # No thread of XLA's may ask for a proxy or a telemetry server in the middle of a measurement.
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def expect_devices(devices: int | None) -> None:
    """Raises BadInput when this worker has another number of devices than it was promised."""
    import jax

    if devices is not None and jax.local_device_count() != devices:
        raise BadInput(
            f"this worker was to have {devices} devices and JAX finds {jax.local_device_count()}"
            f" of platform {jax.default_backend()}",
            fix="set the target's devices_per_worker to what the machine has",
        )


def dumps_folder(output: str, scratch: Path, worker: int) -> Path:
    """Returns where XLA writes its dumps: into the run's folder, or to scratch where that is a bucket."""
    base = scratch if "://" in output else Path(output)
    return base / XLA_DUMPS_FOLDER / f"worker-{worker:04d}"


def current() -> dict[str, str]:
    """Returns the variables above as they are now, for the manifest."""
    names = ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS", "LIBTPU_INIT_ARGS")
    return {name: os.environ[name] for name in names if name in os.environ}
