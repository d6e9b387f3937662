"""A night: its cells side by side where their hardware allows it, what they say together, and what is told of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, ExitCode
from tasks.cloud.prices import PRICES_VARIABLE, load_prices, read_prices
from tasks.cloud.storage import open_folder, probe_writable
from tasks.config import duration
from tasks.config.home import history_uri, home, runs_folder
from tasks.config.load import load_nightly
from tasks.config.locate import locate
from tasks.config.nightly import NightlyConfig
from tasks.config.nightly_cells import Night, folder_at, night_of
from tasks.stages.context import Say
from tasks.stages.nightly_alerts import unaddressed
from tasks.stages.nightly_cell import Work
from tasks.stages.nightly_cost import Purse
from tasks.stages.nightly_locks import playing_alone
from tasks.stages.nightly_plan import Planned, plan_night
from tasks.stages.nightly_playing import Playing, Steps
from tasks.stages.nightly_record import NightRecord, began_at
from tasks.stages.nightly_run import Hands, Watch

_SITE = "series"
"""Folder of the output with the pages of all series."""


def open_night(file: str, date: str | None, now: datetime | None = None) -> Night:
    """Returns the night that a file and a date mean. Raises BadInput, with all problems; makes nothing."""
    path = locate(file, "nightly")
    config = load_nightly(path)
    base = str(path.parent)
    output = open_folder(folder_at(config.output, base, str(runs_folder()))).uri
    history = open_folder(folder_at(config.history, base, history_uri())).uri
    if config.prices:
        table = folder_at(config.prices, base, "")
        read_prices(table, f"leave prices out of {file}")
        os.environ[PRICES_VARIABLE] = table  # for the runs, too, which are processes of their own
    load_prices()
    date = night_of(config, now or datetime.now(UTC), date)
    return Night(config, date, base, output, history, _site(config, base, output), str(path))


def _site(config: NightlyConfig, base: str, output: str) -> str:
    """Returns where the pages of all series are to be; empty: nowhere."""
    if isinstance(config.site, bool):
        return f"{output}/{_SITE}" if config.site else ""
    return open_folder(folder_at(config.site, base, "")).uri


def play_night(night: Night, hands: Hands, say: Say, steps: Steps | None = None) -> NightRecord:
    """Plays a night to its report; called again for the same night it goes on with what is missing.

    Raises BadInput, having made nothing, where nothing of it can start; KeyboardInterrupt once all that was begun has
    given everything back and the report says so.
    """
    planned = plan_night(night)
    refuse_unheard(night, hands.environ)
    refuse_unwritable(night)
    wait_s = duration.seconds(night.config.wait_for_lock)
    with playing_alone(night.name, night.uri, wait_s, say):
        return _played(night, planned, hands, say, steps or Steps())


def _played(night: Night, planned: Sequence[Planned], hands: Hands, say: Say, steps: Steps) -> NightRecord:
    playing = Playing(work_of(night, hands, say), record_of(night, time.time()), steps)
    say(f"night {night.date} of {night.config.name}: {counted(len(planned), 'cell')}, in {night.uri}")
    try:
        playing.first_runs(planned)
        playing.judge(planned)
        playing.alert()
        playing.write_site()
    except BaseException:
        playing.end(ExitCode.INTERRUPTED)
        raise
    playing.end()
    playing.send()
    return playing.record


def refuse_unheard(night: Night, environ: Mapping[str, str]) -> None:
    """Raises BadInput where alerts of a night would be sent nowhere: that is not to be found out after hours."""
    if wrong := unaddressed(night, environ):
        raise BadInput(wrong)


def refuse_unwritable(night: Night) -> None:
    """Raises BadInput where a night cannot write down what it does."""
    for uri in filter(None, (night.uri, night.history, night.site)):
        if (problem := probe_writable(open_folder(uri))) is not None:
            fix = "name another folder in the nightly, or give yourself the right to write there"
            raise BadInput(replace(problem, what=f"{uri} is not writable", fix=fix))


def work_of(night: Night, hands: Hands, say: Say) -> Work:
    """Returns what all cells of a night are given, its time beginning now."""
    limits = night.config.limits
    return Work(
        night=night,
        hands=hands,
        watch=Watch(
            duration.seconds(limits.cell),
            duration.seconds(limits.stop),
            threading.Event(),
            home() / "nightly" / night.name,
        ),
        purse=Purse(night.config.budget),
        until=time.time() + duration.seconds(limits.night),
        say=say,
    )


def record_of(night: Night, now: float) -> NightRecord:
    """Returns the record of a night of which nothing is known yet but when it began."""
    return NightRecord(
        night.config.name,
        night.date,
        began_at(open_folder(night.uri), now),
        budget=night.config.budget,
        prices_as_of=load_prices().as_of,
    )
