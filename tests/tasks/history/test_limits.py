"""Limits beside results: shares of what all workers can do, what cannot be, and machines that changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from runtime.contract.limits import (
    DEVICE_TO_HOST,
    DISK_READ,
    DISK_WRITE,
    MEMORY_COPY,
    Limit,
    Noise,
    limits_of,
)
from tasks.history.limits import beyond, share_of, shifts, together
from tasks.history.report.limits import limit_rows
from tasks.history.results import PointOutcome, Results, results_from_json
from tasks.history.summary import summarize
from tests.tasks.history.making import make_samples, parquet

MIB = float(2**20)


def told(worker: int, **values: Sequence[float] | str) -> dict[str, Any]:
    """Makes what a worker's manifest says, in MiB/s; a text is why it was skipped."""
    limits = {
        name: asdict(Limit(skipped=each) if isinstance(each, str) else Limit(values=_scaled(each)))
        for name, each in values.items()
    }
    return {"worker": worker, **limits}


def _scaled(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(value * MIB for value in values)


def results(*limits: dict[str, Any], workers: int = 2, speed: float = 100.0) -> Results:
    """Makes a run whose two workers each save and restore 1 MiB at `speed` MiB/s, three times."""
    from tasks.history.samples import measurements, read_part

    rows = [[1 / speed] * 3] * 2
    samples = []
    for operation in ("save", "restore"):
        samples += make_samples(rows, operation=operation)
        for metric, value, unit in (("payload_bytes", MIB, "bytes"), ("bytes_per_s", MIB * speed, "bytes/s")):
            samples += make_samples([[value] * 3] * 2, operation=operation, metric=metric, unit=unit)
        samples += make_samples([[0.001] * 3, [0.002] * 3], operation=operation, metric="measuring_s")
    outcome = PointOutcome(0, "tiny", "key-tiny", "X", "native", "passed", attempt=1)
    found = measurements(read_part(parquet(samples)), {0: 1})
    return Results("r", "s", "local", workers, [outcome], limits=limits, measurements=found)


def of(run: Results, operation: str) -> Any:
    return next(one for one in summarize(run.measurements) if one.operation == operation)


def test_the_lower_of_what_bounds_an_operation_counts() -> None:
    run = results(
        told(0, disk_write=[150, 160], device_to_host=[100, 90], disk_read=[400]),
        told(1, disk_write=[170, 120], device_to_host=[90, 100], disk_read=[100]),
    )
    known = together(run)
    assert known[DISK_WRITE] == [320 * MIB, 280 * MIB], "pass by pass, as all measured at once"
    save, restore = share_of(of(run, "save"), known), share_of(of(run, "restore"), known)
    assert save is not None and restore is not None
    assert (save.limit, save.share) == (DEVICE_TO_HOST, pytest.approx(200 / 190))
    assert (restore.limit, restore.words) == (DISK_READ, "40 % of disk read")
    assert not save.is_beyond, "a little more than a limit may be that limit's own noise"
    assert beyond(run) == []


def test_what_is_faster_than_its_limit_is_told() -> None:
    run = results(told(0, disk_write=[500], disk_read=[40]), told(1, disk_write=[500], disk_read=[10]))
    (line,) = beyond(run)
    assert line.startswith("restore went at up to 4.0 times what disk read gives (50.0 MiB/s)")
    assert "page cache" in line


@pytest.mark.parametrize(
    "limits",
    [
        [],
        [told(0, disk_write=[100])],
        [told(0, disk_write=[100]), told(1, disk_write="the output is a bucket")],
        [{"worker": 0, "skipped": "not asked for"}, {"worker": 1, "skipped": "not asked for"}],
        [{"worker": 0, "disk_write": 3, "noise": "?"}, {"worker": 1, "disk_write": {"values": ["x"]}}],
        [told(0, disk_write=[0.0]), told(1, disk_write=[-1.0])],
    ],
)
def test_what_not_all_workers_know_bounds_nothing(limits: list[dict[str, Any]]) -> None:
    run = results(*limits)
    assert together(run) == {}
    assert share_of(of(run, "save"), together(run)) is None
    assert beyond(run) == shifts(run, [run]) == []
    limit_rows(run)


def one(*passes: float) -> Results:
    return results(told(0, memory_copy=list(passes)), workers=1)


@pytest.mark.parametrize(
    ("now", "before", "tells"),
    [
        ([100, 99], [[101, 100]], ""),
        ([60, 59], [[101, 100]], "60.0 MiB/s, −41 % against the earlier run"),
        ([60, 59], [[101, 100], [100, 99], [99, 98]], "−40 % against 3 earlier runs"),
        ([60, 59], [[101, 100], [100, 99], [55, 54]], ""),  # it was as slow before
        ([60, 59], [[100, 30]], ""),  # its own passes differ by more
        ([100, 40], [[160, 160]], ""),  # so they do now
        ([95, 95], [[100, 100]], ""),  # too little to be told
        ([200, 200], [[100, 100]], "+100 % against the earlier run"),
        ([60, 59], [], ""),
    ],
)
def test_a_limit_that_moved_by_more_than_its_noise_is_told(
    now: list[float], before: list[list[float]], tells: str
) -> None:
    lines = shifts(one(*now), [one(*passes) for passes in before])
    if not tells:
        assert lines == []
    else:
        assert "memory copied gives" in lines[0] and tells in lines[0]


def test_the_report_tells_limits_noise_and_why_not() -> None:
    noise = asdict(Noise(100, 0.001, 0.0009, 0.0011, 0.004))
    run = results(
        told(0, disk_write=[100, 80], device_to_host="the devices have the host's own memory")
        | {"noise": noise},
        told(1, disk_write=[50, 60], device_to_host="the devices have the host's own memory")
        | {"noise": {**noise, "high_s": 0.0021}},
    )
    write, to_host, quiet = limit_rows(run)
    assert [cell[0] for cell in write][:3] == ["disk write", "160 MiB/s", "60.0 MiB/s"]
    assert (write[1][1], write[2][1]) == ("passes differ by up to 25 %", "worker 1")
    assert to_host[3][0] == "the devices have the host's own memory"
    assert quiet[1][0] == "± 60 %" and quiet[3] == ("100 blocks", "of worker 1, the noisiest")


def test_limits_outlive_being_written_down(tmp_path: Path) -> None:
    run = results(told(0, disk_write=[100]), told(1, disk_write=[100]))
    again = results_from_json(run.to_json(), "here", "collect again")
    assert together(dataclasses.replace(again, measurements=run.measurements)) == together(run)
    assert limits_of(again.limits[0]).of[DISK_WRITE].values == (100 * MIB,)
    assert MEMORY_COPY not in together(again)


def test_what_measuring_takes_is_that_of_the_worker_on_which_it_takes_longest() -> None:
    assert of(results(), "save").measuring_s == 0.002
