"""How long a year of nights of 500 series takes to load from the compacted history, beside pandas and CSV files."""

from __future__ import annotations

import csv
import datetime
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tasks.cloud.storage import open_folder
from tasks.history.dataset.compaction import compact
from tasks.history.dataset.rows import MEASURED, machine_id, series_id
from tasks.history.dataset.schema import Row
from tasks.history.dataset.store import Dataset
from tests.bench.bars import Bar, bar

SERIES, NIGHTS, REPEATS, ROUNDS = 500, 365, 5, 5
ALLOWED_S = 2.0
_FIRST = datetime.datetime(2025, 11, 29, 2, tzinfo=datetime.UTC)
_FINGERPRINT = {"platform": "tpu", "device_kind": "TPU v5p", "workers": "16"}

_OURS = """
from tasks.stages.history import look, open_history
series = look(open_history(FOLDER + "/history")).records.series
assert len(series) == SERIES and all(len(one.nights) == NIGHTS for one in series.values())
"""
_PANDAS_CSV = """
import glob, pandas
frame = pandas.concat([pandas.read_csv(name) for name in sorted(glob.glob(FOLDER + "/csv/*.csv"))])
medians = frame.groupby(["series", "night"])["value"].median()
assert len(medians) == SERIES * NIGHTS
"""
_PANDAS_OURS = """
import pandas
frame = pandas.read_parquet(FOLDER + "/history/rows")
assert len(frame) == SERIES * NIGHTS
"""


def measure() -> list[Bar]:
    """Returns the bars: each load is that of a process of its own, from its first import on.

    The processor's time counts: on a machine that others use, too, the clock says little.
    """
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        rounds = [[_took(code, folder) for code in (_OURS, _PANDAS_CSV, _PANDAS_OURS)] for _ in range(ROUNDS)]
    ours, csv_files, one_line = zip(*rounds, strict=True)
    what = f"{SERIES} series of {NIGHTS} nights, {REPEATS} repeats"
    return [
        bar(f"load {what}, of {ALLOWED_S:.0f} s allowed", ours, [ALLOWED_S] * ROUNDS, at_most=1.0),
        bar(f"load {what}, of pandas' with a CSV file a night", ours, csv_files, at_most=math.inf),
        bar(f"pandas.read_parquet of {what}, of its CSV files'", one_line, csv_files, at_most=math.inf),
    ]


def _write(folder: Path) -> None:
    """Writes the year twice: into a compacted history, and as a CSV file a night."""
    random, dataset = np.random.default_rng(0), Dataset(open_folder(str(folder / "history")))
    (folder / "csv").mkdir()
    level = random.uniform(0.1, 10, SERIES)
    for n in range(NIGHTS):
        at = (_FIRST + datetime.timedelta(days=n)).timestamp()
        night = f"{_FIRST + datetime.timedelta(days=n):%Y-%m-%d}"
        noise = random.normal(0, 0.01, (SERIES, 1)) + random.normal(0, 0.02, (SERIES, REPEATS))
        values = level[:, None] * np.exp(noise)
        dataset.append([_row(one, night, at, values[one].tolist()) for one in range(SERIES)])
        with (folder / "csv" / f"{night}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["night", "series", "repeat", "value"])
            rows.writerows(
                [night, one, k, value] for one in range(SERIES) for k, value in enumerate(values[one])
            )
    compact(dataset)


def _row(one: int, night: str, at: float, values: list[float]) -> Row:
    suite, key = one // 50, f"key-{one // 5:04}"
    operation = ("save", "wait_until_finished", "restore", "save_again", "restore_again")[one % 5]
    return {
        "night": night,
        "run_id": f"suite-{suite}-{night}",
        "began_at": at + suite,
        "collected_at": at + suite + 600,
        "series": series_id(key, operation, "time_s", _FINGERPRINT, "released"),
        "suite": f"suite-{suite}",
        "target": "v5p-32",
        "benchmark": key,
        "benchmark_key": key,
        "label": f"use_ocdbt=true, combination {one // 5}",
        "operation": operation,
        "metric": "time_s",
        "unit": "s",
        "machine": machine_id(_FINGERPRINT),
        "fingerprint": '{"device_kind":"TPU v5p","platform":"tpu","workers":"16"}',
        "track": "released",
        "versions": '{"jax":"0.10.2","orbax-checkpoint":"0.12.8"}',
        "status": MEASURED,
        "values": values,
        "origin": f"gs://bucket/runs/suite-{suite}-{night}",
    }


def _took(code: str, folder: str) -> float:
    """Returns how long code takes the processor, in a process of its own, imports included."""
    program = (
        f"import time; FOLDER = {folder!r}; SERIES = {SERIES}; NIGHTS = {NIGHTS}\n{code}\n"
        f"print(time.process_time())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)
