"""What tests of nights share: a nightly of files that are there, and hands that make runs by the stand-in."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tasks.config.nightly_cells import Night
from tasks.stages.nightly import open_night, play_night
from tasks.stages.nightly_playing import Steps
from tasks.stages.nightly_record import NightRecord
from tasks.stages.nightly_run import Hands, Watch
from tests.tasks.stages.judges import Judge

STUB = Path(__file__).with_name("night_stub.py")
SUITE = "suite_name: {name}\nbenchmarks: [{{generator: my.Own, options: {{}}}}]\n"


@dataclass
class Nights:
    """A folder with a nightly, and what was done for it."""

    folder: Path
    released: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def config(self, suites: Iterable[str] = ("one",), **fields: Any) -> Path:
        """Writes nightly.yaml with suites of these names and one target of one worker."""
        names = list(suites)
        for name in names:
            (self.folder / f"{name}.yaml").write_text(SUITE.format(name=name))
        (self.folder / "here.yaml").write_text("kind: local\nworkers: 1\n")
        path = self.folder / "nightly.yaml"
        content = {
            "name": "n",
            "suites": [f"./{name}.yaml" for name in names],
            "targets": ["./here.yaml"],
            "output": str(self.folder / "runs"),
            "history": str(self.folder / "history"),
        }
        path.write_text(yaml.safe_dump(content | fields))
        return path

    def night(self, suites: Iterable[str] = ("one",), date: str = "2026-11-29", **fields: Any) -> Night:
        return open_night(str(self.config(suites, **fields)), date)

    def plan(self, **plans: Mapping[str, Any]) -> None:
        """Says what becomes of runs in whose id a word is."""
        (self.folder / "plan.json").write_text(
            json.dumps({name.replace("_", "-"): plan for name, plan in plans.items()})
        )

    def hands(self) -> Hands:
        if not (self.folder / "plan.json").exists():
            self.plan()
        environ = {**os.environ, "NIGHT_STUB": str(self.folder / "plan.json")}
        return Hands(
            [sys.executable, "-S", "-E", str(STUB)],
            lambda run_id, name, why: self.released.append(run_id),
            lambda run_id, name: run_id in self.held,
            environ=environ,
        )

    def watch(self, limit_s: float = 60.0, stop_s: float = 30.0) -> Watch:
        return Watch(limit_s, stop_s, threading.Event(), self.folder / "logs")

    @property
    def calls(self) -> list[str]:
        """What was run and resumed, in order, without the night's name and the hash of the cell."""
        file = self.folder / "plan.json.calls"
        return file.read_text().splitlines() if file.exists() else []


def play(nights: Nights, night: Night, steps: Steps | None = None, judge: Judge | None = None) -> NightRecord:
    """Plays a night to its end; `judge` else finds nothing."""
    steps = replace(steps or Steps(), judge=lambda night: judge or Judge())
    return play_night(night, nights.hands(), lambda line: None, steps)
