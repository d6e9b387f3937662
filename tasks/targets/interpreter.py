"""What a Python that a target file names must have: workers run in it as it is, and nothing is put into it."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.contract.errors import Problem

PACKAGES = ("jax", "jaxlib", "orbax-checkpoint", "tensorstore", "numpy", "pyarrow", "psutil", "pyyaml")
"""What workers cannot do without."""

_OLDEST = (3, 11)


def unfit(told: str, python: str, versions: Mapping[str, str]) -> Problem | None:
    """Returns why workers cannot run in an interpreter, or None. Pure.

    `told` names it for people, `python` is its path where it lies; `versions` holds, besides that of each
    package that is there, its own as `python`.
    """
    if tuple(int(part) for part in versions["python"].split(".")[:2]) < _OLDEST:
        what = f"{told} is Python {versions['python']}, workers need 3.11 or newer"
        return Problem("error", None, what, fix="name another with python: in the target file")
    if lacking := [name for name in PACKAGES if name not in versions]:
        fix = f"install them there: {python} -m pip install {' '.join(lacking)}"
        return Problem("error", None, f"{told} lacks {', '.join(lacking)}", fix=fix)
    return None
