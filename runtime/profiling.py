"""Profiler traces of repeats and dumps of compiled programs, made so that they are there afterwards."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.names import TRACES_FOLDER, XLA_DUMPS_FOLDER
from runtime.contract.suite import Point
from runtime.output import folder_name, is_remote, publish


def is_traced(options: Mapping[str, Any], repeat: int) -> bool:
    """Whether a repeat is traced: with `enable_trace` the first, with `trace_every_repeat` too, every one."""
    return bool(options.get("enable_trace")) and (repeat == 0 or bool(options.get("trace_every_repeat")))


def trace_folder(point: Point, repeat: int, worker: int) -> str:
    """Returns where a trace lies, relative to the run's folder; workers apart, for hosts may share a name."""
    return f"{TRACES_FOLDER}/{folder_name(point.benchmark, point.key)}/repeat-{repeat}/worker-{worker:04d}"


@contextlib.contextmanager
def tracing(output: str, name: str, scratch: Path) -> Iterator[None]:
    """Traces the block with JAX's profiler into `output/name`, also when it raises.

    Raises InfrastructureError when the profiler has written nothing. Tracing takes time: a traced repeat is
    slower.
    """
    import jax

    with contextlib.ExitStack() as stack:
        if is_remote(output):
            scratch.mkdir(parents=True, exist_ok=True)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trace-", dir=scratch)))
        else:
            folder = Path(output, name)
            folder.mkdir(parents=True, exist_ok=True)
        jax.profiler.start_trace(str(folder))
        try:
            yield
        finally:
            jax.profiler.stop_trace()
            written = publish(folder, output, name)
        if not written:
            raise InfrastructureError(
                f"JAX's profiler wrote no trace to {folder}: look for its message in the worker's log, or "
                "set enable_trace to false"
            )


def trace_repeat(point: Point, repeat: int, worker: int, output: str, scratch: Path) -> Any:
    """Returns a context manager that traces this repeat if the point's options ask for it."""
    if is_traced(point.options, repeat):
        return tracing(output, trace_folder(point, repeat, worker), scratch)
    return contextlib.nullcontext()


def prepare_xla_dump(folder: Path) -> None:
    """Makes XLA dump every program it compiles from now on as text into `folder`, a local one.

    To be called before JAX's backend starts, which reads XLA_FLAGS once: raises RuntimeError when it is too
    late, BadInput when XLA_FLAGS already dumps elsewhere.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and bridge.backends_are_initialized():
        raise RuntimeError(
            "prepare_xla_dump is called after JAX's backend has started: nothing would be dumped"
        )
    flags = os.environ.get("XLA_FLAGS", "")
    if "--xla_dump_to" in flags:
        raise BadInput(
            f"XLA_FLAGS already asks for a dump: {flags}",
            fix="take --xla_dump_to out of XLA_FLAGS, or run without --debug-dumps",
        )
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["XLA_FLAGS"] = f"{flags} --xla_dump_to={folder} --xla_dump_hlo_as_text".strip()


def xla_dump_folder(worker: int) -> str:
    """Returns where a worker's dumps lie, relative to the run's folder."""
    return f"{XLA_DUMPS_FOLDER}/worker-{worker:04d}"
