"""Run: what every stage is given. The run's spec, its folder, its target, its stage markers and its narrator."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runtime.contract.errors import InfrastructureError
from runtime.contract.names import STAGES, STAGES_FOLDER
from tasks.cloud.storage import Folder
from tasks.config.commands import resume
from tasks.config.request import Stage
from tasks.config.spec import RunSpec
from tasks.targets.protocol import Target
from tasks.targets.types import Plan

Say = Callable[[str], None]
"""Tells the people watching one line of what happens: the terminal, or Prefect's log."""


@dataclass(frozen=True)
class Run:
    """One passage of the pipeline. `folder` is `<output>/<run_id>/`."""

    spec: RunSpec
    folder: Folder
    target: Target
    say: Say

    @cached_property
    def plan(self) -> Plan:
        """What the target makes and uses for the run: one plan for all stages. See Target."""
        return self.target.plan(self.spec)

    def marker(self, stage: Stage) -> Mapping[str, Any] | None:
        """Returns what a finished stage wrote down, or None when the stage has not finished.

        Raises InfrastructureError, naming the file and the fix, when it is damaged.
        """
        content = self.folder.read(_marker_of(stage))
        if content is None:
            return None
        with self.reading(stage):
            marker = json.loads(content)
            if not isinstance(marker, dict) or not isinstance(marker.get("outputs"), dict):
                raise ValueError("not the marker of a stage")
        return marker

    @contextmanager
    def reading(self, stage: Stage) -> Iterator[None]:
        """Around reading what a stage's marker says: what is missing there or torn is told with the fix."""
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(
                f"{self.folder.uri}/{_marker_of(stage)} is damaged ({error}): do that stage again: "
                f"{self.resume_from(stage)}"
            ) from error

    def mark(self, stage: Stage, **outputs: Any) -> None:
        """Writes that the stage has finished, with what later stages need from it."""
        marker = {"stage": stage, "finished_at": time.time(), "outputs": outputs}
        self.folder.write(_marker_of(stage), json.dumps(marker, indent=1, sort_keys=True).encode())

    def resume_from(self, stage: Stage) -> str:
        """Returns the command that does a stage and all after it again."""
        return resume(self.folder.uri, "--from", stage)

    def forget_from(self, stage: Stage) -> None:
        """Takes back the markers of a stage and of all after it, so that they are done again."""
        for name in STAGES[STAGES.index(stage) :]:
            self.folder.delete(_marker_of(name))


def _marker_of(stage: str) -> str:
    return f"{STAGES_FOLDER}/{stage}.json"
