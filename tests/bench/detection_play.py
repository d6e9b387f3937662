"""Lets detectors go through nights: ours as the product does it, the ideal test, and peers in venvs of their own."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

import numpy as np

from tasks.history.dataset.medians import runs_of
from tasks.history.detection.finding import Change
from tasks.history.detection.machine import Machine
from tasks.history.detection.night import PER_SERIES, SUSPECT, decide, suspects
from tasks.history.detection.series import Night, Run
from tasks.history.detection.standing import Standing, after, series_of
from tests.bench.detection_data import Drawn, Noise
from tests.bench.peers import bench_home, install

Alarms = list[list[int]]
"""Of each series the nights with an alarm."""

PEERS = {"otava": ["apache-otava==0.8.0"], "asv": ["asv==0.6.6", "numpy==2.2.0"]}


def ours(drawn: Drawn) -> Alarms:
    """Plays the nights as the product does: reruns where it asks for them, one alert until it has recovered."""
    return played(drawn)[0]


def played(drawn: Drawn, accepted: Collection[int] = ()) -> tuple[Alarms, list[int]]:
    """Returns the alarms of the series, and the nights in which there was one of the whole machine.

    `accepted`: series whose values since the first night that is judged are expected, as somebody says.
    """
    runs = _runs(drawn)
    told = [[Night(str(n), (row[n][0],)) for n in range(drawn.begin) if row[n]] for row in runs]
    standings, machine = [Standing() for _ in runs], Machine()
    alarms: Alarms = [[] for _ in runs]
    of_machine = []
    for n in range(drawn.begin, drawn.values.shape[1]):
        there = [one for one, row in enumerate(runs) if row[n]]
        if n == drawn.begin:
            standings = [
                Standing(level=str(n)) if one in accepted else Standing() for one in range(len(runs))
            ]
        for one in there:
            told[one].append(Night(str(n), (runs[one][n][0],)))
        first = {str(one): series_of(told[one], standings[one]) for one in there}
        asked = suspects({"": first}, {"": machine})
        again = {*asked, *(str(one) for one in there if standings[one].alert)}
        for one in map(int, again):
            told[one][-1] = Night(str(n), tuple(runs[one][n]))
        shown = decide(
            {"": {str(one): series_of(told[one], standings[one]) for one in there}}, {"": machine}
        )[""]
        for one in there:
            before, finding, series = standings[one], shown.findings[str(one)], shown.series[str(one)]
            standings[one] = after(before, series, finding, Change.UP)
            if standings[one].alert and not before.alert:
                alarms[one].append(n)
            told[one][-1] = series.nights[-1]
        already = machine.standing.alert
        machine = shown.after(machine, str(n))
        if machine.standing.alert and not already:
            of_machine.append(n)
    return alarms, of_machine


def _runs(drawn: Drawn) -> list[list[list[Run]]]:
    """Returns of each series and night its runs; none where there was no run."""
    series, nights, runs, repeats = drawn.values.shape
    count = series * nights * runs
    lengths = np.full(count, repeats)
    made = runs_of(drawn.values.ravel(), np.arange(count) * repeats, lengths, np.zeros(count))
    return [
        [
            [run for run in made[(one * nights + n) * runs : (one * nights + n + 1) * runs] if run]
            for n in range(nights)
        ]
        for one in range(series)
    ]


def ideal(drawn: Drawn, noise: Noise) -> Alarms:
    """Plays two nights by the best test there is for one series whose level and noise are known.

    It is given the same chance of a false alarm and asks for reruns at the same chance as ours.
    """
    from scipy.stats import norm

    scatter = _scatter(noise)
    off = np.log(drawn.medians[:, drawn.begin :]) / scatter
    sure, suspicious = norm.isf(PER_SERIES / 2), norm.isf(SUSPECT / 2)
    return [[drawn.begin + n for n in _first_alarm(rows, sure, suspicious)] for rows in off]


def _first_alarm(rows: np.ndarray, sure: float, suspicious: float) -> list[int]:
    told: list[float] = []
    for n, (first, rerun) in enumerate(rows):
        tonight = [first]
        if max(_sum([first]), _sum([*told, first])) > suspicious:
            tonight.append(rerun)
        if max(_sum(tonight), _sum([*told, *tonight])) > sure:
            return [n]
        told += tonight
    return []


def _sum(off: list[float]) -> float:
    return sum(off) / math.sqrt(len(off))


def _scatter(noise: Noise) -> float:
    """Returns the standard deviation of a run's median, from many draws."""
    generator = np.random.default_rng(1)
    repeats = generator.normal(0, noise.within, (40_000, noise.repeats))
    return float(np.hypot(noise.between, np.median(repeats, axis=1).std()))


def peer(name: str, drawn: Drawn) -> Alarms:
    """Plays the nights by a peer. It is given the mean of both runs of each night: more than ours asks for."""
    python = bench_home() / f"detect-{'-'.join(PEERS[name]).replace('==', '-')}" / "bin" / "python"
    if not (python.parents[1] / "complete").exists():
        shutil.rmtree(python.parents[1], ignore_errors=True)
        install(python.parents[1], PEERS[name])
        (python.parents[1] / "complete").touch()
    packed = io.BytesIO()
    np.save(packed, drawn.medians.mean(axis=2))
    script = Path(__file__).with_name("detection_peers.py")
    done = subprocess.run(
        [str(python), str(script), name, str(drawn.begin)],
        input=packed.getvalue(),
        capture_output=True,
        check=True,
    )
    found: Alarms = json.loads(done.stdout)
    return found
