"""Whether the image that a target names is there: one question to its registry, before anything is made for a run."""

from __future__ import annotations

from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.config.gke_target import GkeTargetConfig
from tasks.stages.doctor import Finding

_CHECK = "image"


def refuse_missing_image(config: Any) -> None:
    """Raises BadInput, with the nearest tags, for a tag that no registry has. One that does not answer is asked later.

    A digest is taken at its word: whoever pulls it may have rights that we have not.
    """
    if not isinstance(config, GkeTargetConfig) or config.image is None or "@" in config.image:
        return
    try:
        _resolved(config.image)
    except InfrastructureError:
        return


def look_at_image(image: str) -> list[Finding]:
    """What the registry says of an image that a target names."""
    try:
        digest = _resolved(image)
    except BadInput as error:
        problem = error.problems[0]
        if "@" in image:
            why = "or it is not shown to us: pods pull it by rights of their own"
            return [Finding(_CHECK, "warning", f"{problem.what}, {why}", problem.fix)]
        return [Finding(_CHECK, "wrong", problem.what, problem.fix)]
    except InfrastructureError as error:
        return [Finding(_CHECK, "unknown", f"whether {image} is there: {error}")]
    return [Finding(_CHECK, "fine", f"{image} is there" + ("" if "@" in image else f", {digest}"))]


def _resolved(image: str) -> str | None:
    """Returns the digest of an image, asked for once and not for long. Raises BadInput, InfrastructureError."""
    from tasks.cloud.image_names import image_name
    from tasks.cloud.registry import Registry
    from tasks.cloud.registry_wire import Wire
    from tasks.cloud.timing import Timing

    with Registry(Wire(Timing(try_s=5.0, total_s=0.0))) as registry:
        return registry.resolve(image_name(image)).digest
