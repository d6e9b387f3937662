"""The GPUs that a run uses are those it may use: on a shared machine the others belong to somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.targets.local_gpus import own_gpus, usable
from tasks.targets.types import Worker, Workers

WORKERS = Workers((Worker(0, 0, "a"), Worker(1, 0, "a")), "a", 2, "gpu")


@pytest.mark.parametrize(
    ("visible", "count", "shared_out"),
    [
        (None, 0, ["0,1", "2,3"]),
        ("4,5,6,7", 4, ["4,5", "6,7"]),
        ("GPU-8932f937-d72c, GPU-aa,1,0", 4, ["GPU-8932f937-d72c,GPU-aa", "1,0"]),
        ("MIG-GPU-b8ea3855/1/0,MIG-c7384736", 2, ["MIG-GPU-b8ea3855/1/0,MIG-c7384736", ""]),
        ("2,-1,3", 1, ["2", ""]),
        ("", 0, ["", ""]),
        ("NoDevFiles", 0, ["", ""]),
    ],
)
def test_of_those_that_are_visible_each_worker_gets_its_own(
    tmp_path: Path, visible: str | None, count: int, shared_out: list[str]
) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert usable(environ, tmp_path) == count
    told = [own_gpus(WORKERS, worker, environ)["CUDA_VISIBLE_DEVICES"] for worker in WORKERS.items]
    assert told == shared_out


def test_workers_on_cpu_are_left_alone() -> None:
    workers = Workers(WORKERS.items, "a", 2, "cpu")
    assert own_gpus(workers, workers.items[0], {"CUDA_VISIBLE_DEVICES": "3"}) == {}


def test_gpus_are_counted_by_the_driver_or_by_their_devices(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / "dev" / name).touch()
    assert usable({}, tmp_path) == 2
    for bus in ("0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / bus).mkdir(parents=True)
    assert usable({}, tmp_path) == 3
