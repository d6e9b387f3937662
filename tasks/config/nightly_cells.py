"""What one night of a nightly is made of: its cells, and the runs of each with names that are the same on a retry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from runtime.contract.errors import BadInput
from tasks.config import duration
from tasks.config.beside_file import located
from tasks.config.nightly import NightlyConfig, Version
from tasks.config.nightly_sense import fits
from tasks.config.request import RunRequest
from tasks.config.run_names import suite_stem

_NIGHT = re.compile(r"(\d{4}-\d{2}-\d{2})([a-z0-9]{0,3})")
_LONGEST = 63
_AGAIN = "-again"
_SUFFIX = 6
"""Letters that names of a cell's runs add to it: `-again`, or `-12b` of a version that is measured in turns."""

HERE = "here"
OTHER = "other"


@dataclass(frozen=True)
class Cell:
    """One suite on one target in one version. All three as the file has them; `of` is the target it stands in for."""

    suite: str
    target: str
    version: Version
    of: str | None = None

    @property
    def title(self) -> str:
        """Returns what people read."""
        return " · ".join((suite_stem(self.suite), suite_stem(self.target), self.version.name))

    @property
    def takes_turns(self) -> bool:
        """Whether two versions are measured in turns."""
        return self.version.against is not None

    def at(self, target: str) -> Cell:
        """Returns the same on another target."""
        return replace(self, target=target, of=self.of or self.target)


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. `side`: which of two versions in turns; `rerun`: how many runs of the cell were before it."""

    run_id: str
    cell: Cell
    request: RunRequest
    side: str = HERE
    rerun: int = 0


@dataclass(frozen=True)
class Night:
    """One night of a nightly. `date` is its name, `base` the folder from which on paths in the file lead.

    `output` is where runs and nights lie, `history` where their numbers are remembered, `site` where the pages of all
    series are; empty: there are none. `file`: the nightly's own, where it was read from one.
    """

    config: NightlyConfig
    date: str
    base: str
    output: str
    history: str = ""
    site: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """Returns what its folder is called, and what the names of its runs begin with."""
        return f"{self.config.name}-{self.date.replace('-', '')}"

    @property
    def uri(self) -> str:
        """Returns where its folder lies."""
        return f"{self.output}/{self.name}"

    @property
    def env_files(self) -> list[str]:
        """Returns where the files lie that say more of the workers' environment."""
        return [located(file, self.base) for file in self.config.env_file]

    def cells(self) -> list[Cell]:
        """Returns the cells, in the order of the file."""
        config = self.config
        matrix = [
            Cell(suite, target, version)
            for suite in config.suites
            for target in config.targets
            for version in config.versions
        ]
        kept = [
            cell
            for cell in matrix
            if not any(fits(which, cell.suite, cell.target, cell.version.name) for which in config.exclude)
        ]
        more = [Cell(one.suite, one.target, one.version) for one in config.include]
        return list(dict.fromkeys((*kept, *more)))

    def runs(self, cell: Cell) -> list[CellRun]:
        """Returns the runs of a cell that are made in any case, in their order."""
        if not cell.takes_turns:
            return [self._run(cell, "", 0)]
        turns = []
        for turn in range(1, cell.version.rounds + 1):
            # Who begins changes from turn to turn: what warms up or fills up is then on both sides alike.
            sides = (HERE, OTHER) if turn % 2 else (OTHER, HERE)
            turns += [
                self._run(cell, f"-{turn}{'a' if side == HERE else 'b'}", turn - 1, side) for side in sides
            ]
        return turns

    def again(self, cell: Cell, only: Sequence[str] = ()) -> CellRun:
        """Returns the run that is made a second time in the same night; `only`: of benchmarks of these keys alone."""
        one = self._run(cell, _AGAIN, 1)
        if not only:
            return one
        chosen = [*one.request.set, f"only={json.dumps(list(only))}"]
        return replace(one, request=one.request.model_copy(update={"set": chosen}))

    def _run(self, cell: Cell, suffix: str, rerun: int, side: str = HERE) -> CellRun:
        config, version = self.config, cell.version
        fields = version.request_fields if side == HERE else version.other_fields
        run_id = f"{self.name}-{self._cell_id(cell)}{suffix}"
        request = RunRequest(
            suite=located(cell.suite, self.base),
            target=located(cell.target, self.base),
            output=self.output,
            history=self.history or None,
            night=self.date,
            track=_track(cell, side),
            run_id=run_id,
            set=list(config.set),
            env=list(config.env),
            env_file=self.env_files,
            run_deadline_s=duration.seconds(config.limits.cell),
            **fields,
        )
        return CellRun(run_id, cell, request, side, rerun)

    def _cell_id(self, cell: Cell) -> str:
        """Returns what names a cell within its night: words as far as there is room, and a hash of all it is."""
        plain = (re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in cell.title.split(" · "))
        room = _LONGEST - len(self.name) - _SUFFIX - len("--0000")
        words = "-".join(plain)[:room].strip("-")
        whole = json.dumps([cell.suite, cell.target, cell.version.model_dump(exclude={"label"})])
        return f"{words}-{hashlib.sha256(whole.encode()).hexdigest()[:4]}"


def night_of(config: NightlyConfig, now: datetime, asked: str | None) -> str:
    """Returns the name of the night: the one asked for, else the date that it is in the nightly's time zone.

    Raises BadInput for what is no name of a night.
    """
    if asked is None:
        return f"{now.astimezone(ZoneInfo(config.timezone)):%Y-%m-%d}"
    found = _NIGHT.fullmatch(asked)
    try:
        datetime.fromisoformat(found[1] if found else "")
    except ValueError:
        raise BadInput(
            f"{asked!r} is no night",
            fix="write its date, as 2026-11-30, and up to three letters for a second one",
        ) from None
    return asked


def folder_at(uri: str | None, base: str, usual: str) -> str:
    """Returns where a folder or file lies that may not be there yet: a path leads from the file's own folder on."""
    if uri is None:
        return usual
    return uri if "://" in uri else str(Path(base) / Path(uri).expanduser())


def instead(config: NightlyConfig, cell: Cell) -> Iterator[Cell]:
    """Yields the cell on the targets that are tried in place of one that has no room."""
    for target in config.elsewhere.get(cell.target, ()):
        yield cell.at(target)


def _track(cell: Cell, side: str) -> str | None:
    """Returns what the history calls the versions of a run; None: after its source, as it does for all runs.

    Versions in turns are kept apart from the nights of the same branch: those have one run each.
    """
    version = cell.version
    if version.against is not None:
        return (
            f"{version.name}, in turns"
            if side == HERE
            else f"{version.against} beside {version.name}, in turns"
        )
    return version.label or None
