"""What an image says of itself: which Python and which JAX it has, as far as whoever made it wrote that down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JAX_LABEL = "slicebench.jax"

_PYTHON, _JAX = re.compile(r"3\.\d+(\.\d+)?"), re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Said:
    """Versions, X.Y or X.Y.Z; None: it does not say."""

    jax: str | None
    python: str | None


def said_by(config: Mapping[str, Any]) -> Said:
    """Returns what an image's configuration says: PYTHON_VERSION as the official images, our label or JAX_VERSION."""
    inner = config.get("config") or {}
    env = dict(str(line).partition("=")[::2] for line in inner.get("Env") or ())
    jax = (inner.get("Labels") or {}).get(JAX_LABEL) or env.get("JAX_VERSION", "")
    python = env.get("PYTHON_VERSION", "")
    return Said(jax if _JAX.fullmatch(jax) else None, python if _PYTHON.fullmatch(python) else None)
