"""What a pod is told: by its environment where the run's folder is and who it is, by files there what to do.

A pod may run an older slicebench than who sends it: what it needs beside its own code is a JSON object, whose keys it
hands on as they are to the supervisor, which is of the version that was sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.contract.errors import BadInput

RUN_VARIABLE = "SLICEBENCH_RUN"
"""The run's folder: gs://, or a path that all pods and the control side share."""

JOB_VARIABLE = "SLICEBENCH_JOB"
"""Name in that folder of what all workers of an attempt are told: a Job in JSON, its paths relative to the folder."""

RENDEZVOUS_VARIABLE = "SLICEBENCH_RENDEZVOUS"
"""HOST:PORT at which the first worker's supervisor listens for the others."""

ADDRESS_VARIABLE = "SLICEBENCH_POD_ADDRESS"
"""The pod's own IP address: the first worker listens there, whether or not names are served yet."""

TOKEN_VARIABLE = "SLICEBENCH_TOKEN"
"""By which supervisors know each other; from the Secret of the workload."""

SLICE_VARIABLE = "JOB_INDEX"
HOST_VARIABLE = "JOB_COMPLETION_INDEX"
CONTAINER_VARIABLE = "CONTAINER_INDEX"
PROCESSES_VARIABLE = "PROCESSES_IN_JOB"
CONTAINERS_VARIABLE = "SLICEBENCH_CONTAINERS_PER_HOST"
"""Which slice, which host of it, which container of that (absent: 0), and how many of them there are in a slice, and on
a host (absent: 1)."""

PODS_FOLDER = "pods"
"""In the run's folder: all that is only between the control side and pods."""

RENEWAL_FILE = f"{PODS_FOLDER}/renewed"
"""Changed by the run whenever it has renewed its lease."""


def number_told(environ: Mapping[str, str], variable: str, default: int | None = None) -> int:
    """Returns a number from 0 that a variable has; `default` where it is not set. Raises BadInput."""
    text = environ.get(variable, "")
    if not text and default is not None:
        return default
    if not text.isdecimal():
        raise BadInput(f"{variable} is {text!r}, and should be a number from 0")
    return int(text)


def place_in_pods(environ: Mapping[str, str]) -> tuple[int, int]:
    """Returns which of all processes a container of a workload is, and its slice: slices come one after the other, and
    hosts within them. Raises BadInput.
    """
    slice_index, host, container = (
        number_told(environ, name, 0) for name in (SLICE_VARIABLE, HOST_VARIABLE, CONTAINER_VARIABLE)
    )
    per_slice, per_host = (
        number_told(environ, name, 1) for name in (PROCESSES_VARIABLE, CONTAINERS_VARIABLE)
    )
    return slice_index * per_slice + host * per_host + container, slice_index


def job_file(attempt: int) -> str:
    """Returns where it stands what all workers of an attempt are told."""
    return f"{PODS_FOLDER}/a{attempt}/job.json"


def start_file(attempt: int) -> str:
    """Returns what the first worker makes before anything else when its cluster may start all of them again: whoever
    finds it there is another start, and another attempt.
    """
    return f"{PODS_FOLDER}/a{attempt}/started"


def code_file(sha256: str) -> str:
    """Returns where the workers' code lies: an archive, named after its content, that several attempts may share."""
    return f"{PODS_FOLDER}/code-{sha256}.tgz"


def stream_file(attempt: int, worker: int) -> str:
    """Returns where a pod leaves its supervisor's stream when it ends, for who could not hear it to the end."""
    return f"{PODS_FOLDER}/a{attempt}/stream-w{worker:04d}.jsonl"
