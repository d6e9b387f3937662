"""What images may be for: which packages each kind holds, what it is built by, and what shows that it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runtime.contract.errors import BadInput
from tasks.cloud.image_smoke import JAX_AND_ORBAX, OF_THE_PROXY

Kind = Literal["benchmark", "training", "proxy"]

_FOLDER = Path(__file__).parents[2] / "deployments" / "images"


@dataclass(frozen=True)
class KindOfImage:
    """`computes`: JAX and Orbax are in it, beside `extras`. `file` is what it is built by; `command`: what runs in it
    where nothing else is said. `imports`: modules that have to be found in it.
    """

    extras: tuple[str, ...]
    computes: bool
    file: str
    command: tuple[str, ...]
    imports: tuple[str, ...]

    def dockerfile(self) -> str:
        """Returns what an engine builds it by. Raises BadInput where slicebench is installed without it."""
        path = _FOLDER / self.file
        if not path.is_file():
            raise BadInput(f"{path} is not there", fix="build images from a checkout of slicebench")
        words = ", ".join(f'"{word}"' for word in self.command)
        return path.read_text() + (f"CMD [{words}]\n" if words else "")


KINDS: Mapping[Kind, KindOfImage] = {
    "benchmark": KindOfImage(("image",), True, "Dockerfile", (), JAX_AND_ORBAX),
    "training": KindOfImage(
        (), True, "Dockerfile", ("python", "-m", "runtime.training"),
        (*JAX_AND_ORBAX, "runtime.training.program"),
    ),
    "proxy": KindOfImage(
        ("proxy",), False, "Dockerfile.proxy", ("python", "-m", "runtime.gcs_proxy"),
        OF_THE_PROXY,
    ),
}  # fmt: skip


def imports_of(kind: Kind, *, proxy: bool) -> tuple[str, ...]:
    """Returns the modules that have to be found in an image; `proxy`: with what the encrypting proxy needs."""
    return tuple(dict.fromkeys((*KINDS[kind].imports, *(OF_THE_PROXY if proxy else ()))))
