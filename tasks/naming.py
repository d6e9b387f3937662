"""What all stage tasks share: their names in the UI, and that Prefect neither caches nor repeats them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.runtime import flow_run


class StageOptions(TypedDict):
    """Keyword arguments of `@task`."""

    name: str
    task_run_name: Callable[[], str]
    cache_policy: CachePolicy | type[Any]
    persist_result: bool
    retries: int


def stage_options(name: str) -> StageOptions:
    """Returns how a stage becomes a task.

    Finished stages are known by our own markers, which any tool can read, so Prefect's cache stays off: a
    cached *provision* would hand out hardware that is gone. Prefect's retries stay off because a second
    create after a lost reply is for the ledger to judge.
    """
    return {
        "name": name,
        "task_run_name": lambda: _with_attempt(name),
        "cache_policy": NO_CACHE,
        "persist_result": False,
        "retries": 0,
    }


def _with_attempt(name: str) -> str:
    """After a retry the UI shows the tasks of all attempts side by side: the number tells them apart."""
    attempt = int(flow_run.run_count or 1)
    return name if attempt <= 1 else f"{name} (attempt {attempt})"
