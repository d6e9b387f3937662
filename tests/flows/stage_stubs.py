"""Stands in for all stages of a run: notes when they are called, and leaves what each leaves in the run's folder."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tasks.history.results import Results
from tasks.history.verdict import Verdict, Verdicts
from tasks.targets.types import Attempt, Outcome

STAGES = ["build", "provision", "upload", "run", "collect", "teardown", "compare", "report"]

_LEAVES = {
    "collect": ("points.json", "samples.parquet"),
    "compare": ("verdicts.json",),
    "report": ("report.html",),
}


class Stages:
    """Stand-ins that note when they are called; `raises` makes one fail, `results` is what collect returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.called: list[str] = []
        self.raises: dict[str, BaseException] = {}
        self.results = Results("r", "s", "t", 1, [])
        self.verdict = Verdict.NO_BASELINE
        self.on_call: Callable[[], None] = lambda: None
        # What the stand-ins leave is there, and says nothing: no artifacts are made of it.
        monkeypatch.setattr("tasks.history.reading.load_results", lambda folder: None)
        monkeypatch.setattr("tasks.history.reading.load_verdicts", lambda folder: None)
        for name in STAGES:
            function = "run_workload" if name == "run" else name
            module = importlib.import_module(f"tasks.stages.{name}")
            monkeypatch.setattr(module, function, self._stand_in(name))

    def _stand_in(self, name: str) -> Any:
        def stage(run: Any, *others: Any, **more: Any) -> Any:
            self.called.append(name)
            self.on_call()
            run.say(f"this is {name}")
            if name in self.raises:
                raise self.raises[name]
            if name == "teardown":
                others[0].release("the run is over")
                run.mark("teardown")
            elif name in _LEAVES:
                for file in _LEAVES[name]:
                    run.folder.write(file, b"PAR1 samples PAR1" if file.endswith("parquet") else b"{}")
                if name == "collect":
                    run.mark("collect", whole=True)
            elif name == "run":
                run.mark("run", attempts=[{"n": 1, "end": "succeeded", "cause": ""}], results="")
                return Outcome([Attempt(1, "succeeded")], "")
            return {
                "collect": self.results,
                "compare": Verdicts("r", self.verdict, "a reason"),
                "report": "/where/report.html",
            }.get(name)

        return stage
