"""Names that both sides must spell alike: stages, and where things lie in a run's folder."""

from __future__ import annotations

STAGES = ("build", "provision", "upload", "run", "collect", "teardown")
"""The pipeline, in order."""

SUITE_FILE = "suite.yaml"
SOURCE_VARIABLE = "SLICEBENCH_SOURCE"
"""Environment variable with what the control side built (JSON): repository, ref and the commit under test."""

SECRET_NAMES_VARIABLE = "SLICEBENCH_SECRET_ENV"
"""Environment variable with the names, separated by commas, of variables whose values are never recorded."""

GIVEN_NAMES_VARIABLE = "SLICEBENCH_GIVEN_ENV"
"""Environment variable with the names, separated by commas, of all that the run was given: --env and env files."""

RESULTS_FOLDER = "results"
CHECKPOINTS_FOLDER = "checkpoints"
REFERENCES_FOLDER = "checkpoints/references"
"""What a suite makes for its own later benchmarks: options name it by {run}."""
TENSORBOARD_FOLDER = "tensorboard"
TRACES_FOLDER = "traces"
XLA_DUMPS_FOLDER = "xla_dumps"
LOGS_FOLDER = "logs"
STAGES_FOLDER = "stages"

STREAM_FILE = "stream.jsonl"
"""In a worker's scratch: everything its supervisor says, one record a line; see progress.py."""

ATTEMPT_FILE = "attempt"
"""In a worker's scratch: which attempt it turned out to be, where supervisor 0 says that."""

JOURNAL_FILE = "journal.jsonl"
"""In a worker's scratch: samples and point results, appended as they happen; sealed into Parquet afterwards."""

HOST_FILE = "host.jsonl"
"""In a worker's scratch: what its host's processors, memory, networks and disks did; see host_counters.py."""

STACKS_FILE = "stacks.txt"
"""In a worker's scratch: stack dumps of all threads, asked for by the supervisor."""


def samples_file(attempt: int, worker: int) -> str:
    """Returns where a worker's sealed samples lie, relative to the run's folder."""
    return f"{RESULTS_FOLDER}/samples-a{attempt}-w{worker:04d}.parquet"


def points_file(attempt: int, worker: int) -> str:
    """Returns where a worker's point results lie (JSON lines), relative to the run's folder."""
    return f"{RESULTS_FOLDER}/points-a{attempt}-w{worker:04d}.jsonl"


def host_file(attempt: int, worker: int) -> str:
    """Returns where the counters of a worker's host lie (JSON lines), relative to the run's folder."""
    return f"{RESULTS_FOLDER}/host-a{attempt}-w{worker:04d}.jsonl"


def manifest_file(attempt: int, worker: int) -> str:
    """Returns where a worker's manifest (versions, devices, flags) lies, relative to the run's folder."""
    return f"{RESULTS_FOLDER}/manifest-a{attempt}-w{worker:04d}.json"


def sidecar_log(attempt: int, worker: int) -> str:
    """Returns where the end of what stood beside a worker said lies, relative to the run's folder."""
    return f"{LOGS_FOLDER}/sidecar-a{attempt}-w{worker:04d}.log"
