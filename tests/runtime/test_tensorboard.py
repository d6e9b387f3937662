"""Event files are read back with TensorBoard's own reader."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from runtime.contract.results import Sample
from runtime.tensorboard import crc32c, encode_events, write_events


def sample(
    value: float, repeat: int = 0, occurrence: int = 0, operation: str = "save", warmup: bool = False
) -> Sample:
    return Sample(
        "r",
        1,
        0,
        "Bench",
        "abc",
        repeat,
        occurrence,
        2,
        operation,
        "time_s",
        value,
        "s",
        warmup,
        1e9 + repeat,
    )


def scalars(path: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Returns (step, value, wall time) of each tag."""
    events = EventAccumulator(str(path), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    found = {
        tag: [(e.step, e.value, e.wall_time) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }
    for tag in events.Tags()["tensors"]:
        found[tag] = [
            (event.step, float(event.tensor_proto.float_val[0]), event.wall_time)
            for event in events.Tensors(tag)
        ]
    return found


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"", 0), (b"123456789", 0xE3069283), (b"\0" * 32, 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_checksum_is_castagnolis(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


def test_tensorboard_reads_every_sample(tmp_path: Path) -> None:
    samples = [sample(0.5 + repeat, repeat) for repeat in range(200)]
    (name,) = write_events(samples, str(tmp_path), tmp_path)
    assert name == "tensorboard/Bench_abc/worker-0002/events.out.tfevents.0000000001.point-0"
    read = scalars(tmp_path / "tensorboard/Bench_abc/worker-0002")
    assert read == {"save/time_s": [(repeat, 0.5 + repeat, 1e9 + repeat) for repeat in range(200)]}


def test_occurrences_get_steps_of_their_own_and_warmup_a_tag(tmp_path: Path) -> None:
    samples = [sample(occurrence, 1, occurrence) for occurrence in range(3)]
    samples += [sample(7, 0, operation="restore", warmup=True), sample(8, 1, operation="restore")]
    write_events(samples, str(tmp_path), tmp_path)
    read = scalars(tmp_path / "tensorboard/Bench_abc/worker-0002")
    assert [step for step, _, _ in read["save/time_s"]] == [3, 4, 5]
    assert [(step, value) for step, value, _ in read["warmup/restore/time_s"]] == [(0, 7)]
    assert [(step, value) for step, value, _ in read["restore/time_s"]] == [(1, 8)]


def test_names_of_benchmarks_become_names_of_folders(tmp_path: Path) -> None:
    strange = dataclasses.replace(sample(1), benchmark="Load[path=gs://b/c d]" + "x" * 300)
    (name,) = write_events([strange], str(tmp_path), tmp_path)
    assert name.startswith("tensorboard/Load_path=gs_b_c_d_xxx")
    assert (tmp_path / name).parent.parent.name.endswith("x_abc")
    assert len((tmp_path / name).parts) == len(tmp_path.parts) + 4


def test_benchmarks_and_workers_lie_apart(tmp_path: Path) -> None:
    other = dataclasses.replace(sample(1), worker=3)
    assert len(write_events([sample(1), other], str(tmp_path), tmp_path)) == 2


def test_long_names_and_strange_values_are_encoded(tmp_path: Path) -> None:
    long = "x" * 300
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(encode_events([sample(float("nan"), operation=long), sample(-2.0, operation="größe")]))
    read = scalars(tmp_path)
    assert read["größe/time_s"][0][1] == -2.0
    assert read[f"{long}/time_s"][0][1] != read[f"{long}/time_s"][0][1]
