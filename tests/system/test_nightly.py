"""Nights from end to end, on this machine, with a benchmark that takes as long as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tasks.cloud.storage import open_folder
from tasks.history.dataset.store import Dataset
from tasks.stages.history import rows_of_folder
from tests.system.suites import lay_suite
from tests.tasks.stages.test_nightly_alerts import Receiver

pytestmark = pytest.mark.system

PACE_S = 0.5
NIGHTS = [f"2026-11-{day:02d}" for day in range(1, 29)]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Place:
    """A folder with a nightly of one suite, and its history."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environ = {**os.environ, "SLICEBENCH_HOME": os.environ["SLICEBENCH_HOME"], "HOOK": url}
        suite = lay_suite(folder / "suite", "steady")
        content = yaml.safe_load(suite.read_text())
        suite.write_text(yaml.safe_dump(content | {"num_repeats": 5}))
        (folder / "one.yaml").write_text("kind: local\nworkers: 1\n")
        (folder / "red.yaml").write_text("suite_name: red\nbenchmarcks: []\n")
        self.write()

    def write(self, **fields: Any) -> None:
        nightly = {
            "name": "steady",
            "suites": ["./suite/steady.yaml"],
            "targets": ["./one.yaml"],
            "env": ["PACE_S"],
            "output": "runs",
            "history": "history",
            "alerts": {"webhooks": [{"url_env": "HOOK"}]},
        }
        (self.folder / "nightly.yaml").write_text(yaml.safe_dump(nightly | fields))

    def night(self, date: str, pace_s: float = PACE_S) -> tuple[int, Mapping[str, Any]]:
        """Plays a night; returns its exit code and what it printed."""
        words = [sys.executable, "-m", "flows.cli.main", "nightly", str(self.folder / "nightly.yaml")]
        done = subprocess.run(
            [*words, "--night", date, "--direct", "--json"],
            env=self.environ | {"PACE_S": str(pace_s)},
            capture_output=True,
            text=True,
            timeout=900,
        )
        print(done.stderr)
        return done.returncode, json.loads(done.stdout)

    def import_nights(self, date: str) -> None:
        """Fills the history with nights like that one, each a per cent off by chance."""
        random = np.random.default_rng(1)
        (folder,) = [
            one for one in (self.folder / "runs").iterdir() if one.name.startswith(f"steady-{date}-")
        ]
        dataset = Dataset(open_folder(str(self.folder / "history")))
        for day, night in enumerate(NIGHTS):
            rows = rows_of_folder(open_folder(str(folder)))
            off = float(np.exp(0.01 * random.standard_normal()))
            dataset.append(
                [
                    {
                        **row,
                        "night": night,
                        "run_id": f"earlier-{night}",
                        "began_at": row["began_at"] - 86400.0 * (len(NIGHTS) - day),
                        "collected_at": row["collected_at"] - 86400.0 * (len(NIGHTS) - day),
                        "values": [value * off for value in row.get("values", [])],
                    }
                    for row in rows
                ]
            )


def _verdicts(told: Mapping[str, Any]) -> set[str]:
    return {one["verdict"] for one in told["told"]["series"] if "time_s" in one["name"]}


def _slowest(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in told["told"]["series"] if "time_s" in one["name"])
    return found


def test_a_slower_version_is_red_after_its_rerun_alerts_once_and_recovers(
    tmp_path: Path, receiver: Receiver
) -> None:
    place = Place(tmp_path / "place", receiver.url)
    code, told = place.night("2026-11-29")
    assert (code, _verdicts(told)) == (0, {"NO_BASELINE"})
    place.import_nights("20261129")

    code, told = place.night("2026-11-30")
    assert (code, _verdicts(told), receiver.got) == (0, {"PASS"}, [])

    code, told = place.night("2026-12-01", PACE_S * 1.1)
    assert (code, _verdicts(told)) == (4, {"REGRESSED"})
    assert [run["rerun"] for run in told["cells"][0]["runs"]] == [0, 1]
    assert _slowest(told)["effect"] == pytest.approx(0.1, abs=0.04)
    assert [(one["state"], one["what"], one["since"]) for one in receiver.got] == [
        ("opened", "regressed", "2026-12-01")
    ]
    again, told_again = place.night("2026-12-01", PACE_S * 1.1)  # nothing is done twice
    assert (again, told_again["cells"], len(receiver.got)) == (4, told["cells"], 1)

    # One run that is back may be chance: whether the first closes it is the evidence's to say, and two are enough.
    code, told = place.night("2026-12-02")
    assert (code, len(receiver.got)) in ((4, 1), (0, 2))
    code, told = place.night("2026-12-03")
    assert (code, _verdicts(told)) == (0, {"PASS"})
    assert [one["state"] for one in receiver.got] == ["opened", "closed"]
    assert (tmp_path / "place/runs/steady-20261201/report.html").exists()


def test_a_suite_that_cannot_start_is_red_and_the_others_run(tmp_path: Path, receiver: Receiver) -> None:
    place = Place(tmp_path / "place", receiver.url)
    place.write(suites=["./suite/steady.yaml", "./red.yaml"])
    code, told = place.night("2026-11-30")
    assert (code, [cell["status"] for cell in told["cells"]]) == (3, ["passed", "not_run"])
    assert "unknown key 'benchmarcks'" in told["cells"][1]["cause"]
    assert [(one["state"], one["what"]) for one in receiver.got] == [("opened", "not_run")]
    page = (tmp_path / "place/runs/steady-20261130/report.html").read_text()
    assert "NOT_RUN" in page
