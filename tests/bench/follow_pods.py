"""For a bench: follows the JobSet of many_pods in a process of its own, and says what that took and what it got.

    python -m tests.bench.follow_pods URL AUTHORITY

prints JSON: lines, those that were missing or came twice, seconds from the first to the last, peak memory in MiB,
seconds of processor time, and how late the latest line was (95 of 100 lines came sooner than `late_s`).
"""

from __future__ import annotations

import json
import resource
import sys
import time
from datetime import datetime
from pathlib import Path

from tasks.cloud.kubernetes_access import by_endpoint
from tasks.cloud.kubernetes_follow import follow
from tasks.cloud.kubernetes_kinds import JOB_SET
from tasks.cloud.kubernetes_told import Line, LogEnd
from tasks.cloud.kubernetes_watch import Change
from tests.bench.many_pods import NAME, NAMESPACE, UID


def ended(change: Change) -> bool:
    return change.kind == JOB_SET and "terminalState" in change.object["status"]


def peak_mib() -> float:
    """Returns this process's peak resident memory. (getrusage's would be that of who started it, if that is larger.)"""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def main(url: str, authority: Path) -> None:
    """Follows to the end."""
    counts: dict[str, int] = {}
    wrong, ends, complete, first, last = 0, 0, 0, 0.0, 0.0
    late: list[float] = []
    access = by_endpoint("the bench", url, authority.read_text(), lambda refused: "token")
    for one in follow(access, NAMESPACE, NAME, UID, until=ended):
        match one:
            case Line():
                last = time.time()
                first = first or last
                expected = counts.get(one.source.uid, 0)
                wrong += int(one.text.split(" ", 2)[1]) != expected
                counts[one.source.uid] = expected + 1
                if not expected % 10:
                    late.append(last - datetime.fromisoformat(one.at).timestamp())
            case LogEnd():
                ends += 1
                complete += one.complete
    usage = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "lines": sum(counts.values()),
        "wrong": wrong,
        "ends": ends,
        "complete": complete,
        "took_s": last - first,
        "memory_mib": peak_mib(),
        "processor_s": usage.ru_utime + usage.ru_stime,
        "late_s": sorted(late)[int(len(late) * 0.95)],
        "over_s": time.time() - last,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
