"""A benchmark of which one worker stays in a save until it is killed: whoever waits for that comes in time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from runtime.benchmarks.benchmark import Context
from runtime.benchmarks.pytree_checkpoint import PyTreeCheckpoint
from runtime.contract.options import PyTreeCheckpointOptions


@dataclass(frozen=True, kw_only=True)
class Options(PyTreeCheckpointOptions):
    """`held`: the file that the worker of this number makes in that repeat; where it is, nobody is held again."""

    held: str = ""
    worker: int = 0
    repeat: int = 0


class Held(PyTreeCheckpoint):
    """Saves and restores as its parent does."""

    options_class = Options
    options: Options
    _holds = False

    def run(self, context: Context) -> None:
        given = self.options
        here = (jax.process_index(), context.repeat) == (given.worker, given.repeat)
        self._holds = here and not Path(given.held).exists()
        super().run(context)

    def _checkpointer(self) -> ocp.Checkpointer:
        made = super()._checkpointer()
        if self._holds:
            made.save = self._hold  # type: ignore[method-assign]
        return made

    def _hold(self, *arguments: Any, **more: Any) -> None:
        Path(self.options.held).touch()
        threading.Event().wait()
