"""Traces and dumps are looked for where they should be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from runtime.contract.errors import BadInput
from runtime.contract.suite import CheckpointSpec, Point
from runtime.profiling import is_traced, prepare_xla_dump, trace_folder, trace_repeat, xla_dump_folder

ROOT = Path(__file__).parents[2]


def point(**options: bool) -> Point:
    return Point(0, "Bench", "abc", "x.Bench", "native", options, None, CheckpointSpec())


@pytest.mark.parametrize(
    ("options", "traced"),
    [
        ({}, [False, False]),
        ({"enable_trace": True}, [True, False]),
        ({"enable_trace": True, "trace_every_repeat": True}, [True, True]),
        ({"trace_every_repeat": True}, [False, False]),
    ],
)
def test_options_choose_the_repeats(options: dict[str, bool], traced: list[bool]) -> None:
    assert [is_traced(options, repeat) for repeat in range(2)] == traced


def test_trace_is_written(tmp_path: Path) -> None:
    asked = point(enable_trace=True)
    with trace_repeat(asked, 0, 1, str(tmp_path), tmp_path / "scratch"):
        (jnp.ones(8) + 1).block_until_ready()
    folder = tmp_path / "traces/Bench_abc/repeat-0/worker-0001"
    assert folder == tmp_path / trace_folder(asked, 0, 1)
    (trace,) = folder.rglob("*.xplane.pb")
    assert trace.stat().st_size > 0


def test_trace_of_a_block_that_raises_is_written(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="boom"),
        trace_repeat(point(enable_trace=True), 0, 0, str(tmp_path), tmp_path),
    ):
        raise ValueError("boom")
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_no_trace_unless_asked(tmp_path: Path) -> None:
    with trace_repeat(point(), 0, 0, str(tmp_path), tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_dump_is_really_there(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from runtime.profiling import prepare_xla_dump
prepare_xla_dump(Path({str(tmp_path)!r}, {xla_dump_folder(0)!r}))
import jax, jax.numpy as jnp
jax.jit(lambda x: x * 3 + 1)(jnp.ones(7)).block_until_ready()
"""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
    dumps = [path for path in (tmp_path / "xla_dumps/worker-0000").iterdir() if path.suffix == ".txt"]
    assert any("multiply" in path.read_text() for path in dumps)


def test_dump_prepared_too_late_is_refused(tmp_path: Path) -> None:
    jax.devices()
    with pytest.raises(RuntimeError, match="after JAX's backend has started"):
        prepare_xla_dump(tmp_path)


def test_dump_keeps_flags_and_refuses_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", None)
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    prepare_xla_dump(tmp_path / "dump")
    assert os.environ["XLA_FLAGS"] == f"--xla_a=1 --xla_dump_to={tmp_path / 'dump'} --xla_dump_hlo_as_text"
    with pytest.raises(BadInput, match="already asks for a dump"):
        prepare_xla_dump(tmp_path / "other")
