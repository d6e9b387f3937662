"""Numbers, labels, fingerprints and excerpts read as a person would write them."""

from __future__ import annotations

import pytest

from tasks.history.fingerprint import difference, fingerprint
from tasks.history.intervals import Interval
from tasks.history.labels import labels, mesh_label, short_generator
from tasks.history.quantities import between, moment, percent, plus_minus, printable, seconds, size, speed
from tasks.history.report.axis import axis_from_zero, axis_of_change
from tasks.history.report.excerpt import excerpt
from tasks.history.results import PointOutcome
from tests.tasks.history.making import MANIFEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00 µs"),
        (2.5e-5, "25.0 µs"),
        (0.0123, "12.3 ms"),
        (4.567, "4.57 s"),
        (200.4, "3 min 20 s"),
        (7500, "2 h 05 min"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (-(2**21), "−2.00 MiB")]
)
def test_size(value: float, text: str) -> None:
    assert size(value) == text
    assert speed(value) == f"{text}/s"


def test_changes_have_a_sign() -> None:
    assert [percent(value) for value in (0.0312, -0.12, 0.0)] == ["+3.1 %", "−12 %", "+0.0 %"]
    assert plus_minus(0.25) == "± 25 %"


def test_ends_of_an_interval_share_a_unit_when_they_can() -> None:
    assert between(Interval(0.0011, 0.0022, 0.95), "s") == "1.10–2.20 ms"
    assert between(Interval(0.5, 1.5, 0.95), "s") == "500 ms – 1.50 s"
    assert between(None, "s") == ""


def test_moments_are_utc() -> None:
    assert (moment(0.0), moment(None)) == ("1970-01-01 00:00:00 UTC", "")


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert printable("a\x1b[31mé\tb\r") == "a\N{REPLACEMENT CHARACTER}[31mé\tb\N{REPLACEMENT CHARACTER}"


def point(number: int, generator: str = "a.b.PyTreeCheckpointBenchmark", **different: object) -> PointOutcome:
    return PointOutcome(number, f"b{number}", "k", generator, "native", "passed", **different)  # type: ignore[arg-type]


def test_points_are_told_apart_by_what_differs() -> None:
    points = [point(0, options={"a": True, "b": 1}), point(1, options={"a": False, "b": 1})]
    assert labels(points) == {0: "a=true", 1: "a=false"}
    nested = [point(n, options={"rules": [{"keep": n, "of": "all"}]}) for n in range(2)]
    assert labels(nested) == {0: "rules 1", 1: "rules 2"}
    meshes = [point(n, mesh={"mesh_axes": ["x"], "ici_parallelism": {"x": n + 1}}) for n in range(2)]
    assert labels(meshes) == {0: "x 1", 1: "x 2"}
    data = [point(n, checkpoint={"path": f"/{n}"}) for n in range(2)]
    assert labels(data) == {0: "checkpoint 1", 1: "checkpoint 2"}


def test_a_label_does_not_say_what_follows_from_the_rest_of_it() -> None:
    combinations = [(True, True, True), (True, True, False), (True, False, False), (False, False, False)]
    points = [
        point(n, options={"ocdbt": a, "replicas": b, "separate_folder": c, "same": 1})
        for n, (a, b, c) in enumerate(combinations)
    ]
    assert labels(points) == {
        0: "ocdbt=true, replicas=true, separate_folder=true",
        1: "ocdbt=true, replicas=true, separate_folder=false",
        2: "ocdbt=true, replicas=false",
        3: "ocdbt=false",
    }
    others = [*points, point(4, "c.Other", options={"alone": 1})]
    assert labels(others)[3] == "PyTreeCheckpoint, ocdbt=false" and labels(others)[4] == "Other"


def test_labels_are_never_alike() -> None:
    assert labels([point(0)]) == {0: "PyTreeCheckpoint"}
    assert labels([point(0), point(1)]) == {0: "PyTreeCheckpoint", 1: "PyTreeCheckpoint (2)"}
    assert labels([point(0), point(1, "c.Other")]) == {0: "PyTreeCheckpoint", 1: "Other"}


def test_names_of_classes_and_meshes() -> None:
    assert short_generator("orbax.v1.load_benchmark.Benchmark") == "load_benchmark"
    mesh = {"mesh_axes": ["d", "m"], "ici_parallelism": {"d": 2}, "dcn_parallelism": {"d": 2}}
    assert mesh_label(mesh) == "d 2 × m 1 + d 2 × m 1 across slices"


def test_a_fingerprint_leaves_versions_out() -> None:
    ours = fingerprint([MANIFEST, MANIFEST], workers=2, slices=1, output="/runs")
    theirs = fingerprint([{**MANIFEST, "versions": {"jax": "9"}}], workers=2, slices=1, output="/runs")
    assert ours == theirs
    assert (ours["platform"], ours["devices"], ours["storage"]) == ("cpu", "2", "ext4")
    assert difference(ours, theirs) is None


def test_differing_workers_and_storage_are_told() -> None:
    mixed = fingerprint([MANIFEST, {"host": {"cpu_model": "Another"}}], workers=4, slices=1, output="gs://b")
    ours = fingerprint([MANIFEST], workers=2, slices=1, output="/runs")
    assert mixed["host"] == "Another + Imagined CPU"
    told = difference(ours, mixed)
    assert told is not None
    assert "workers 4 instead of 2" in told and "storage gs instead of ext4" in told


def test_without_manifests_things_are_unknown() -> None:
    assert fingerprint([], workers=1, slices=1, output="/runs")["host"] == "unknown"


def test_an_excerpt_surrounds_the_cause() -> None:
    lines = [f"line {n}" for n in range(200)]
    lines[100] = "ValueError: boom"
    found = excerpt("\n".join(lines), "worker 1: ValueError: boom", 0).splitlines()
    assert found[0] == "line 60" and found[-1] == "line 149"
    lines[100] = "Thread 0x1 (most recent call first):"
    assert "most recent call first" in excerpt("\n".join(lines), "deadline", 0)
    assert excerpt("\n".join(lines[:100]), "unseen", 0).splitlines()[-1] == "line 99"
    assert excerpt("", "unseen", 0) == ""


def test_an_excerpt_is_of_the_session_that_came_to_the_point() -> None:
    log = [
        *("supervisor: session 1 started at benchmark 1 (pid 7)", "zero", "supervisor: the worker is gone"),
        *(
            "supervisor: session 2 started at benchmark 2 (pid 8)",
            "one",
            "Thread 0x1 (most recent call first):",
        ),
        *("supervisor: session 3 started at benchmark 3 (pid 9)", "two", "three"),
    ]
    of = [excerpt("\n".join(log), "worker 1 was killed by SIGKILL", point).splitlines() for point in range(4)]
    assert of == [log[:3], log[3:6], log[6:], log[6:]]


def test_an_excerpt_shows_the_stacks_as_well_as_the_cause() -> None:
    lines = [f"line {n}" for n in range(400)]
    lines[50], lines[300] = "Thread 0x1 (most recent call first):", "ValueError: boom"
    found = excerpt("\n".join(lines), "ValueError: boom", 0).splitlines()
    assert lines[50] in found and lines[300] in found
    assert found.count("…") == 1 and found[found.index("…") + 1] == "line 260"
    lines[280] = lines[50]
    found = excerpt("\n".join(lines), "ValueError: boom", 0).splitlines()
    assert found == lines[240:350]


def test_axes_begin_at_zero_with_round_numbers() -> None:
    axis = axis_from_zero(0.0731, "s", 100, 500)
    assert ([tick.text for tick in axis.ticks], axis.unit) == (["0", "20", "40", "60"], "ms")
    assert (axis.x(0), axis.x(99.0), axis.beyond(0.0731), axis.beyond(0.09)) == (100, 500, False, True)
    assert axis_from_zero(0.0, "bytes", 0, 1).ticks[0].x == 0


def test_changes_are_shown_around_zero() -> None:
    texts = [tick.text for tick in axis_of_change(-0.12, 0.31, 0, 400).ticks]
    assert texts == ["−10", "0", "+10", "+20", "+30"]
