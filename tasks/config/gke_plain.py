"""A target of kind gke that has only what flags say, without pydantic: whoever made it by hand waits for nothing else.

It vouches for what is plainly right and for nothing more: whatever it does not know, or doubts, is the model's to judge
and to refuse, in the model's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from runtime.contract.errors import BadInput
from tasks.config import patterns
from tasks.config.accelerators import accelerator
from tasks.config.gke_rules import GkeRules

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

_WORDS: Mapping[str, str | None] = {
    "context": patterns.ONE_LINE, "kubeconfig": patterns.ONE_LINE, "namespace": patterns.DNS_LABEL, "type": None,
    "topology": None, "container_name": patterns.DNS_LABEL, "image": patterns.IMAGE,
    "image_pull_secret": patterns.DNS_LABEL, "service_account": patterns.DNS_LABEL, "queue": patterns.QUEUE,
    "priority": patterns.DNS_LABEL, "scheduler": patterns.ONE_WORD,
}  # fmt: skip
"""What each must look like to be plainly right; None: what it means is looked up."""
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "slices": (1, 1024), "nodes": (1, 4096), "containers_per_host": (1, 8), "max_restarts": (0, 1_000_000),
}  # fmt: skip
_LIMITS: Mapping[str, tuple[int, int]] = {
    "workload_s": (1, 10**9), "termination_grace_s": (0, 3600), "ttl_s": (0, 10**9),
}  # fmt: skip
_NOTHING: Mapping[str, str] = MappingProxyType({})
_MAY_BE_NONE = frozenset({"queue", "priority", "ttl_s", "workload_s"})


@dataclass(frozen=True)
class PlainLimits:
    """See GkeLimits."""

    queue_s: int | None = 24 * 3600
    provisioning_s: int | None = 2 * 3600
    workload_s: int | None = None
    termination_grace_s: int = 30
    ttl_s: int | None = 12 * 3600
    attempts: int = 3


class PlainGke(GkeRules):
    """See GkeTargetConfig: the same fields, with the same values where nothing was said.

    No dataclass: to make one of so many fields takes as long as a request.
    """

    kind: Literal["gke"] = "gke"
    context: str | None = None
    kubeconfig: str | None = None
    cluster: None = None
    namespace: str = "default"
    type: str = ""
    topology: str | None = None
    slices: int = 1
    nodes: int | None = None
    containers_per_host: int = 1
    devices_per_worker: int | Literal["auto"] = "auto"
    platform: str = "cpu"
    image: str | None = None
    build: None = None
    smoke: bool = True
    image_pull_secret: str | None = None
    container_name: str = "worker"
    env: Mapping[str, str] = _NOTHING
    cpu: str | None = None
    memory: str | None = None
    service_account: str | None = None
    host_network: bool | Literal["auto"] = "auto"
    privileged: bool | Literal["auto"] = "auto"
    gpu_networks: tuple[str, ...] | None = None
    queue: str | None = "multislice-queue"
    priority: str | None = "medium"
    scheduler: str | None = None
    exclusive_topology: str | None = "auto"
    node_selector: Mapping[str, str] = _NOTHING
    tolerations: tuple[str, ...] = ()
    pod_annotations: Mapping[str, str] = _NOTHING
    lock: bool = False
    max_restarts: int = 0
    restart_on_user_code_failure: bool = False
    restart_exit_codes: tuple[int, ...] = ()
    shared: None = None
    ramdisk: None = None
    debug_dump: None = None
    ops_agent: None = None
    tensorboard: None = None
    pathways: None = None
    encryption: None = None
    sidecar: None = None
    workload_name: str | None = None
    wait: bool = True
    limits: PlainLimits = PlainLimits()  # type: ignore[assignment]

    def __init__(self, **said: Any) -> None:
        vars(self).update(said)


def plain(fields: Mapping[str, Any]) -> GkeTargetConfig | None:
    """Returns the target of these fields, as a file would have them; None: ask the model."""
    given = {name: value for name, value in fields.items() if name != "kind"}
    limits = given.pop("limits", {})
    if not all(_sure(name, value) for name, value in given.items()):
        return None
    if not all(_in(_LIMITS, name, value) for name, value in limits.items()):
        return None
    try:
        kind = accelerator(str(given.get("type"))).kind
        made = PlainGke(**{**given, "platform": kind, "limits": PlainLimits(**limits)})
        if any(made.wrong()):
            return None
    except BadInput:
        return None
    # It is none, and has all that is read of one: a test compares both field by field.
    return cast("GkeTargetConfig", made)


def _sure(name: str, value: Any) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    if name in _WORDS:
        pattern = _WORDS[name]
        return (
            isinstance(value, str) and bool(value) and (pattern is None or bool(re.fullmatch(pattern, value)))
        )
    if name == "restart_on_user_code_failure":
        return isinstance(value, bool)
    return _in(_NUMBERS, name, value)


def _in(ranges: Mapping[str, tuple[int, int]], name: str, value: Any) -> bool:
    if value is None:
        return name in _MAY_BE_NONE
    low, high = ranges.get(name, (1, 0))
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
