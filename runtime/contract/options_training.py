"""Options of the benchmarks that train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from runtime.contract.options import BenchmarkOptions, Rule, all_of, not_negative, positive


def _no_step(options: Mapping[str, Any]) -> str | None:
    """Returns why what training is to begin with is no checkpoint of a step, or None."""
    given = options["resume_from"]
    if given is None or (given.rstrip("/").rpartition("/")[2].isdecimal() and "/" in given.rstrip("/")):
        return None
    return "resume_from must be the folder of a step, such as gs://BUCKET/FOLDER/300"


def _no_place(options: Mapping[str, Any]) -> str | None:
    """Returns why checkpoints cannot lie where they are to, or come from there, or None."""
    for name in ("directory", "resume_from"):
        scheme, is_uri, rest = (options[name] or "").partition("://")
        if options[name] == "":
            return f"{name} must name a folder, or gs://BUCKET/FOLDER"
        if is_uri and scheme != "gs":
            return f"{name} must be a folder, or gs://BUCKET/FOLDER: {scheme}:// is not supported"
        if is_uri and not rest.partition("/")[0]:
            return f"{name} must name a bucket: gs://BUCKET/FOLDER"
    return None


def _uneven_heads(options: Mapping[str, Any]) -> str | None:
    """Returns why heads cannot share the width, or None."""
    if options["width"] % options["heads"]:
        return f"width must be a multiple of heads ({options['heads']})"
    return None


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(BenchmarkOptions):
    """Training of a model of `layers` layers, each of `width` times `width` weights, with Adam: three times as much is
    saved. `batch` is rows of a step for each device. `step_s`: shortest time of a step, seconds; where computing takes
    less, it waits, as if the model were larger. `restores`: how often the newest is restored at the end.

    `directory`: where checkpoints lie in the place of the run's folder, to stay there; whoever is started with the same
    goes on from the newest. `resume_from`: a checkpoint to begin with while there is none of its own.
    """

    rule: ClassVar[Rule] = staticmethod(
        all_of(
            positive(
                "train_steps", "save_interval_steps", "max_to_keep", "layers", "width", "batch", "restores"
            ),
            not_negative("step_s"),
            _no_place,
            _no_step,
        )
    )

    train_steps: int = 20
    save_interval_steps: int = 5
    max_to_keep: int = 2
    async_enabled: bool = True
    layers: int = 4
    width: int = 512
    batch: int = 8
    step_s: float = 0.0
    restores: int = 1
    directory: str | None = None
    resume_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(TrainingOptions):
    """The same with a transformer: `layers` layers, `width` wide, of `heads` heads; `sequence` tokens out of
    `vocabulary`. `batch` is sequences of a step for each part of the data.
    """

    rule: ClassVar[Rule] = staticmethod(
        all_of(TrainingOptions.rule, positive("heads", "vocabulary", "sequence"), _uneven_heads)
    )

    train_steps: int = 300
    save_interval_steps: int = 100
    width: int = 128
    heads: int = 4
    vocabulary: int = 1024
    sequence: int = 64
    batch: int = 4
