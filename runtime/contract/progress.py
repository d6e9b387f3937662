"""The line protocol: what a worker tells its supervisor, and what a supervisor tells everybody.

A worker writes JSON lines to the file descriptor named in SLICEBENCH_PROGRESS_FD (no such variable: nobody listens). Its
supervisor writes `stream.jsonl`, append-only: each line one JSON record with `seq` (1, 2, 3 … without a gap), `at`
(seconds since the epoch) and `kind`. A reader that has seen record n starts again after n: no line is lost or repeated.
"""

from __future__ import annotations

PROGRESS_FD_VARIABLE = "SLICEBENCH_PROGRESS_FD"

# Kinds a worker sends; the supervisor puts them into its stream unchanged, with seq and at.
INIT = "init"  # phase, and on end: process_count, device_count, local_device_count, platform
POINT = "point"  # phase, point, points, benchmark, key, deadline_s; on end: status, cause
OPERATION = "operation"  # phase, point, points, benchmark, repeat, operation
DONE = "done"  # the suite is through: points, failed

# Kinds only a supervisor makes.
STARTED = "started"  # session, pid, first_point
LOG = "log"  # text, stream (stdout or stderr)
DEADLINE = "deadline"  # what ran out, worker, operation, stragglers
STACKS = "stacks"  # text: stack dumps of the worker's threads
WORKER_EXITED = "worker_exited"  # session, code, cause
EXITED = "exited"  # the supervisor ends: code, cause. Always the last record.
