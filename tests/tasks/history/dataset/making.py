"""Makes rows of the history with literal numbers, and a folder whose calls fail, for tests."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from runtime.contract.errors import InfrastructureError
from tasks.cloud.storage import Folder
from tasks.history.dataset.notes import Note, Notes
from tasks.history.dataset.recorded import Recorded, Records
from tasks.history.dataset.rows import MEASURED, machine_id, series_id
from tasks.history.dataset.schema import Row
from tasks.history.dataset.store import Dataset

BEGAN = datetime.datetime(2026, 11, 1, 2, tzinfo=datetime.UTC).timestamp()
DAY = 86400.0
NOW = BEGAN + 60 * DAY
FINGERPRINT = {"platform": "cpu", "device_kind": "cpu", "workers": "2"}


def row(n: int = 0, values: Sequence[float] = (1.0, 2.0, 3.0), **changed: Any) -> Row:
    """Returns the row of a series' run number n, a day after the one before."""
    made: dict[str, Any] = {
        "run_id": f"run-{n}",
        "began_at": BEGAN + n * DAY,
        "collected_at": BEGAN + n * DAY + 60,
        "suite": "Quickstart",
        "target": "local",
        "benchmark": "tiny",
        "benchmark_key": "key-tiny",
        "label": "tiny",
        "operation": "save",
        "metric": "time_s",
        "unit": "s",
        "machine": machine_id(FINGERPRINT),
        "fingerprint": '{"platform":"cpu"}',
        "track": "released",
        "versions": '{"jax":"0.10.2"}',
        "status": MEASURED,
        "values": list(values),
    } | changed
    if made["status"] == MEASURED and "series" not in made:
        key = made["benchmark_key"], made["operation"], made["metric"]
        made["series"] = series_id(*key, FINGERPRINT, made["track"])
    return made


def note(kind: Any, night: str, *, series: str = "", at: float = NOW, text: str = "") -> Note:
    return Note(kind=kind, night=night, series=series, text=text, by="me", at=at)


def records(dataset: Dataset, *notes: Note, now: float = NOW) -> Records:
    return Records(dataset.read().rows(), Notes(notes), now)


def the_series(dataset: Dataset, *notes: Note) -> Recorded:
    """Returns the only series that there is."""
    (found,) = records(dataset, *notes).series.values()
    return found


class Killed(BaseException):
    """The process is gone."""


class Failing:
    """A folder of which the `nth` call that changes something dies, before or after its effect; reads pass."""

    def __init__(self, folder: Folder, nth: int, when: str, dies: type[BaseException] = Killed) -> None:
        self._folder, self._left, self._when, self._dies = folder, nth, when, dies
        self.uri = folder.uri

    def _do(self, call: Any, *given: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            raise self._dies("as asked")
        done = call(*given)
        if self._left == 0:
            raise self._dies("as asked")
        return done

    @property
    def struck(self) -> bool:
        return self._left <= 0

    def create(self, name: str, content: bytes) -> bool:
        made: bool = self._do(self._folder.create, name, content)
        return made

    def write(self, name: str, content: bytes) -> None:
        self._do(self._folder.write, name, content)

    def delete(self, name: str) -> None:
        self._do(self._folder.delete, name)

    def read(self, name: str, start: int = 0) -> bytes | None:
        return self._folder.read(name, start)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self._folder.names(prefix)

    def folders(self) -> Iterator[str]:
        return self._folder.folders()

    def child(self, name: str) -> Folder:
        raise InfrastructureError("not for this test")

    def upload(self, source: str, name: str) -> None:
        raise InfrastructureError("not for this test")
