"""For tests of commands about workloads: what runs in the cluster that they ask."""

from __future__ import annotations

from typing import Any

from tests.cloud.kubernetes.client import PODS, Plain
from tests.cloud.kubernetes.manifests import TPU, jobset
from tests.cloud.kubernetes.stand_in import tpu_pool

POOLS = [tpu_pool(f"np-{one}", *TPU.values(), hosts=2) for one in range(2)]
STAYS = "print('up', flush=True); import time; time.sleep(120)"


def running(api: Plain, name: str, pods: int = 2) -> None:
    api.eventually(PODS, lambda told: _phases(told, name) == ["Running"] * pods)


def _phases(told: dict[str, Any], name: str) -> list[str]:
    return [one["status"]["phase"] for one in told["items"] if one["metadata"]["labels"]["app"] == name]


def failing(name: str) -> dict[str, Any]:
    program = (
        "import os, sys, time\n"
        "if os.environ['JOB_COMPLETION_INDEX'] == '1':\n"
        "    print('ValueError: nothing to restore', file=sys.stderr)\n"
        "    sys.exit(3)\n"
        "time.sleep(120)"
    )
    return jobset(name, program, slices=1, pod={"terminationGracePeriodSeconds": 1})
