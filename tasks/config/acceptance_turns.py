"""What an acceptance is made of: a run for each variant and repeat, in turns, with names that hold on a retry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.config import duration
from tasks.config.acceptance import AcceptanceConfig, Variant
from tasks.config.beside_file import located
from tasks.config.nightly import Version
from tasks.config.nightly_cells import Cell, CellRun
from tasks.config.request import RunRequest

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?")

REFERENCE = "reference"
"""In place of a variant's name: the base, and it is not stopped."""


@dataclass(frozen=True)
class Turn:
    """One run. `repeat` from 0; None: the reference."""

    variant: Variant
    repeat: int | None
    run: CellRun

    @property
    def title(self) -> str:
        """Returns what people read."""
        return REFERENCE if self.repeat is None else f"{self.variant.name} · {self.repeat + 1}"


@dataclass(frozen=True)
class Session:
    """One passage of an acceptance. `id` tells it from others of the same `file`, an absolute path.

    `output` is where its runs lie, `targets` a folder here with a target file for each variant.
    """

    config: AcceptanceConfig
    id: str
    file: str
    output: str
    targets: str

    @property
    def base(self) -> str:
        """Returns the folder from which on paths in the file lead."""
        return str(Path(self.file).parent)

    @property
    def name(self) -> str:
        """Returns what its folder is called, and what the names of its runs begin with."""
        return f"{self.config.name}-{self.id}"

    @property
    def uri(self) -> str:
        """Returns where its folder lies."""
        return f"{self.output}/{self.name}"

    @property
    def env_files(self) -> list[str]:
        """Returns where the files lie that say more of the workers' environment."""
        return [located(file, self.base) for file in self.config.env_file]

    def turns(self) -> list[Turn]:
        """Returns all runs in order: who begins changes, for what warms or fills up is then on all sides alike."""
        return [*self._reference(), *self._repeats()]

    def target_file(self, variant: Variant) -> str:
        """Returns where the target file of a variant lies."""
        return f"{self.targets}/{variant.name}.yaml"

    def _reference(self) -> Iterator[Turn]:
        if self.config.reference:
            yield Turn(self.config.base, None, self._run(self.config.base, REFERENCE, None))

    def _repeats(self) -> Iterator[Turn]:
        for repeat in range(self.config.repeats):
            order = self.config.variants if repeat % 2 == 0 else tuple(reversed(self.config.variants))
            for variant in order:
                suffix = f"{variant.name}-{repeat + 1}"
                yield Turn(variant, repeat, self._run(variant, suffix, self.config.checkpoints))

    def _run(self, variant: Variant, suffix: str, stop_after: int | None) -> CellRun:
        config = self.config
        target = self.target_file(variant)
        trains = config.training if isinstance(config.training, str) else config.training.image
        fields = {
            "suite": located(trains, self.base),
            "target": target,
            "output": self.output,
            "run_id": f"{self.name}-{suffix}",
            "set": list(config.set),
            "env": list(config.env),
            "env_file": self.env_files,
            "run_deadline_s": duration.seconds(config.limits.run),
            "stop_after_checkpoints": stop_after,
        }
        request = RunRequest.model_validate(fields)
        cell = Cell(trains, config.target, Version.model_validate({"label": variant.name}))
        return CellRun(str(request.run_id), cell, request)


def digest(config: AcceptanceConfig) -> str:
    """Returns what tells whether two files ask for the same."""
    whole = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def new_id(now: datetime) -> str:
    """Returns the id of a session that begins now."""
    return f"{now.astimezone(UTC):%m%d-%H%M%S}"


def checked_id(asked: str) -> str:
    """Returns an id that somebody asks for. Raises BadInput for what cannot be a part of names."""
    if not _ID.fullmatch(asked):
        raise BadInput(
            f"{asked!r} is not a name for an acceptance",
            fix="use up to 11 lower-case letters, digits and dashes",
        )
    return asked
