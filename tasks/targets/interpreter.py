"""What a Python that a target file names must have: workers run in it as it is, and nothing is put into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.contract.errors import Problem
from tasks.config.sidecar import WithSidecar

PACKAGES = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy", "pyarrow", "psutil", "pyyaml")
"""What workers cannot do without."""

PROXY_PACKAGES = (
    "cryptography", "google-auth", "google-crc32c", "grpcio", "h11", "prometheus-client", "protobuf", "tink",
)  # fmt: skip
"""What the encrypting proxy cannot do without, where it runs in the workers' Python."""

_OLDEST = (3, 11)


def wanted(config: WithSidecar) -> Sequence[str]:
    """Returns the packages that a Python of a target's workers needs."""
    return PACKAGES if config.encryption is None else (*PACKAGES, *PROXY_PACKAGES)


def unfit(
    told: str, python: str, versions: Mapping[str, str], names: Sequence[str] = PACKAGES
) -> Problem | None:
    """Returns why workers cannot run in an interpreter, or None. Pure.

    `told` names it for people, `python` is its path where it lies; `versions` holds, besides that of each
    package of `names` that is there, its own as `python`.
    """
    if tuple(int(part) for part in versions["python"].split(".")[:2]) < _OLDEST:
        what = f"{told} is Python {versions['python']}, workers need 3.11 or newer"
        return Problem("error", None, what, fix="name another with python: in the target file")
    if lacking := [name for name in names if name not in versions]:
        fix = f"install them there: {python} -m pip install {' '.join(lacking)}"
        return Problem("error", None, f"{told} lacks {', '.join(lacking)}", fix=fix)
    return None
