"""What each metric means: its unit, which way is good, and whether people want to see it first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Direction = Literal["lower", "higher", "none"]


@dataclass(frozen=True)
class Metric:
    """`good`: the direction of an improvement; `none` when a change is neither good nor bad by itself.

    `headline`: shown first, and what verdicts alert on. `source`: where the number comes from.
    """

    unit: str
    good: Direction
    headline: bool
    description: str
    source: str


TIME = "time_s"
THROUGHPUT = "bytes_per_s"
MEASURING = "measuring_s"
MEASURING_INSIDE = "measuring_inside_s"
CACHED = "cached_share"
RECOVERY = "recovery"
"""The operation whose time is that of going on after workers were struck, or an attempt was taken away."""
LOSS, STEP = "loss", "step"
"""Of an operation that is a step of training: its loss, and which step it was."""

METRICS: Mapping[str, Metric] = {
    TIME: Metric("s", "lower", True, "wall time of the block", "perf_counter"),
    MEASURING: Metric(
        "s",
        "none",
        False,
        "what recorder and collectors took around the block, outside of time_s",
        "perf_counter",
    ),
    MEASURING_INSIDE: Metric(
        "s",
        "none",
        False,
        "what measuring the blocks inside this one took, part of its time_s",
        "perf_counter",
    ),
    "cpu_s": Metric("s", "lower", False, "CPU time of all threads of the process", "process_time"),
    "payload_bytes": Metric("bytes", "none", False, "bytes this worker saved or restored", "the benchmark"),
    THROUGHPUT: Metric(
        "bytes/s",
        "higher",
        True,
        "payload_bytes over time_s, to the end of what goes on in the background",
        "derived",
    ),
    "rss_start_bytes": Metric("bytes", "none", False, "resident memory when the block began", "VmRSS"),
    "peak_rss_bytes": Metric("bytes", "lower", False, "highest resident memory, exact", "VmHWM, set back"),
    "peak_rss_over_start_bytes": Metric(
        "bytes", "lower", True, "peak_rss_bytes - rss_start_bytes", "derived"
    ),
    "rss_per_saved_byte": Metric(
        "1", "lower", True, "peak_rss_over_start_bytes per byte saved or restored", "derived"
    ),
    "sampled_peak_rss_bytes": Metric(
        "bytes",
        "lower",
        False,
        "highest resident memory seen every 5 ms, where the exact peak is denied",
        "statm",
    ),
    "sampled_peak_rss_over_start_bytes": Metric(
        "bytes", "lower", True, "sampled_peak_rss_bytes - rss_start_bytes", "derived"
    ),
    "sampled_rss_per_saved_byte": Metric(
        "1", "lower", True, "sampled_peak_rss_over_start_bytes per byte saved or restored", "derived"
    ),
    "device_start_bytes": Metric(
        "bytes", "none", False, "in use on the fullest local device at the start", "memory_stats"
    ),
    "device_peak_bytes": Metric(
        "bytes", "lower", False, "most in use on one local device, exact if it was a record", "memory_stats"
    ),
    "device_peak_over_start_bytes": Metric(
        "bytes", "lower", True, "device_peak_bytes - device_start_bytes", "derived"
    ),
    "live_arrays_change": Metric(
        "count", "none", False, "JAX arrays alive after minus before", "live_arrays"
    ),
    "live_arrays_bytes_change": Metric(
        "bytes", "none", False, "bytes of those on local devices", "live_arrays"
    ),
    "read_bytes": Metric("bytes", "lower", False, "bytes read by calls of read", "/proc/self/io rchar"),
    "written_bytes": Metric(
        "bytes", "lower", False, "bytes written by calls of write", "/proc/self/io wchar"
    ),
    "read_requests": Metric("count", "lower", False, "calls of read", "/proc/self/io syscr"),
    "write_requests": Metric("count", "lower", False, "calls of write", "/proc/self/io syscw"),
    "disk_read_bytes": Metric(
        "bytes", "lower", False, "bytes fetched from storage", "/proc/self/io read_bytes"
    ),
    "disk_written_bytes": Metric(
        "bytes", "lower", False, "bytes sent to storage", "/proc/self/io write_bytes"
    ),
    "host_network_received_bytes": Metric(
        "bytes", "none", False, "received by the host's default interface, all processes", "sysfs rx_bytes"
    ),
    "host_network_sent_bytes": Metric(
        "bytes", "none", False, "sent by the host's default interface, all processes", "sysfs tx_bytes"
    ),
    CACHED: Metric(
        "1",
        "none",
        False,
        "part of the checkpoint's bytes that was in the host's page cache when its reading began",
        "mincore",
    ),
    "files": Metric("count", "none", False, "files of a checkpoint", "the benchmark"),
    "stored_bytes": Metric("bytes", "lower", False, "bytes of a checkpoint's files", "the benchmark"),
    "detection_s": Metric(
        "s", "none", False, "from the blow until all supervisors were told to end the session", "supervisor"
    ),
    "queue_s": Metric(
        "s",
        "none",
        False,
        "from when the attempt before was seen to be taken away until the next had its turn",
        "slicebench",
    ),
    "start_s": Metric("s", "lower", False, "from then until Python and JAX were there again", "both"),
    "setup_s": Metric("s", "lower", False, "from then until the restore began", "the worker"),
    "restore_s": Metric("s", "lower", False, "restoring the newest complete step", "the worker"),
    "first_step_s": Metric("s", "lower", False, "the first step after it", "the worker"),
    "complete_after_s": Metric(
        "s",
        "lower",
        False,
        "from the begin of a save until its checkpoint was complete",
        "the worker",
    ),
    "resumed_from_step": Metric("1", "none", False, "the step that was restored", "the worker"),
    "lost_steps": Metric("1", "lower", False, "steps begun before the blow that had to be redone", "both"),
    LOSS: Metric("1", "none", False, "loss of a step of training", "the benchmark"),
    STEP: Metric("1", "none", False, "which step of training it was", "the benchmark"),
    "slowdown": Metric(
        "1", "lower", True, "a step beside a save over a step alone, medians of a repeat", "the benchmark"
    ),
    "growth_bytes_per_cycle": Metric(
        "bytes", "lower", True, "memory that a save and a restore leave behind, median slope", "VmRSS"
    ),
    "rss_after_bytes": Metric(
        "bytes", "none", False, "resident memory after a cycle, all that is free given back", "VmRSS"
    ),
    "deletion_s": Metric(
        "s", "lower", True, "what deleting old steps adds to a save, difference of medians", "the benchmark"
    ),
    "held_up_s": Metric(
        "s",
        "lower",
        True,
        "what a late worker costs one that is in time, difference of medians",
        "the benchmark",
    ),
    "kept_steps": Metric("count", "none", False, "steps that a manager kept at the end", "the benchmark"),
    "deleted_files": Metric("count", "none", False, "files that were deleted", "the benchmark"),
    "deleted_bytes": Metric("bytes", "none", False, "bytes of these", "the benchmark"),
    "cancelled": Metric(
        "1", "none", False, "1: nothing is left of a save that was broken off", "the benchmark"
    ),
    "still_written_s": Metric(
        "s",
        "lower",
        False,
        "for how long files of a save were written after it was broken off",
        "the benchmark",
    ),
    "broadcasts": Metric("count", "none", False, "goes in which arrays were sent", "Orbax"),
    "checkpoint_files": Metric("count", "none", False, "files of what was loaded", "the benchmark"),
    "checkpoint_bytes": Metric("bytes", "none", False, "bytes of these", "the benchmark"),
    "requests": Metric("count", "none", False, "requests to the object store", "the front before it"),
    "faults": Metric(
        "count", "none", False, "of these, answered with an error on purpose", "the front before it"
    ),
    "jax/core/compile/backend_compile_count": Metric(
        "count",
        "lower",
        False,
        "programs compiled or fetched from the cache; told also when zero",
        "jax.monitoring",
    ),
}
"""Metrics by name. Those of jax.monitoring and TensorStore have names of their own: see `describe`."""


def describe(metric: str, unit: str = "") -> Metric:
    """Returns what is known of a metric; `unit`, as its samples have it, for those the table cannot list."""
    known = METRICS.get(metric)
    if known is not None:
        return known
    if metric.startswith("tensorstore/"):
        return Metric(unit, "none", False, "change of TensorStore's counter of this name", "TensorStore")
    if metric.startswith(("jax/", "orbax/")):
        return Metric(unit, _direction(metric), False, _of_tag(metric), "jax.monitoring")
    return Metric(unit, "none", False, "recorded by the benchmark itself", "the benchmark")


def _direction(metric: str) -> Direction:
    if metric.endswith("_s") and not metric.endswith("_per_s"):
        return "lower"
    return "higher" if metric.endswith("_per_s_mean") else "none"


def _of_tag(metric: str) -> str:
    """Says what the ending adds to the tag's own name."""
    for ending, meaning in (
        ("_count", "times the tag of this name was told"),
        ("_events", "times the tag of this name was told"),
        ("_mean", "mean of the tag's values"),
        ("_sum", "sum of the tag's values"),
        ("_s", "sum of the tag's durations"),
    ):
        if metric.endswith(ending):
            return meaning
    return "tag of this name"
