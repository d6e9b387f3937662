"""Flags of `slicebench cluster create` as a config: what is wrong with them is said in the flags' own spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from runtime.contract.errors import BadInput, Problem

if TYPE_CHECKING:
    from tasks.config.cluster import ClusterConfig

_FLAGS = {
    "reservations": "--reservation",
    "regional": "--zonal",
    "authorized_networks": "--authorized-network",
    "cluster_fields": "--cluster-field",
    "cpu_pool_fields": "--cpu-pool-field",
    "pool_fields": "--pool-field",
    "cpu_pool.machine_type": "--cpu-machine-type",
    "cpu_pool.nodes": "--cpu-nodes",
    "cpu_pool.disk_gb": "--cpu-disk",
    "cpu_pool.disk_type": "--cpu-disk",
    "queueing.cpu_limit": "--cpu-limit",
    "queueing.memory_limit": "--memory-limit",
    "queueing.jobset": "--jobset-version",
    "queueing.kueue": "--kueue-version",
}
"""Flags that are not called as their fields are."""

_ASKS = {"--cpu-disk": "GB or GB:TYPE, of at least 10 GB, such as 200:pd-standard"}

_OF_A_TYPE = (
    *("slices", "nodes", "topology", "capacity", "reservations", "max_run"),
    *("placement_policy", "gpu_networks", "autoprovision", "pool_fields"),
)
"""What says something of accelerators, and nothing where there are none."""


def config_of(**fields: Any) -> ClusterConfig:
    """Returns the flags, by the names of their fields, as a config; None and empty ones were not given.

    Raises BadInput for what is wrong, and for what would have no effect. Asks nobody.
    """
    from flows.cli.wrong_flags import refuse_empty
    from tasks.config.as_flags import Flags
    from tasks.config.cluster import ClusterConfig
    from tasks.config.findings import checked
    from tasks.targets.cluster_requests import passed_through

    given = {name: value for name, value in fields.items() if value is not None and value != ()}
    refuse_empty({_flag(name): value for name, value in given.items()})
    if problems := list(_at_odds(given)):
        raise BadInput(problems)
    for name in ("cluster_fields", "cpu_pool_fields", "pool_fields"):
        if texts := given.get(name):
            given[name] = _by_path(texts, _flag(name))
            passed_through(name, {}, given[name], _flag(name))
    return checked(ClusterConfig, given, Flags(_FLAGS, ClusterConfig.model_fields, asks=_ASKS))


def _by_path(given: tuple[str, ...], flag: str) -> Mapping[str, str]:
    fields = {}
    for one in given:
        path, separator, value = one.partition("=")
        if not separator or not path:
            raise BadInput(
                f"{flag} {one}: write PATH=VALUE", fix="e.g. network_config.enable_l4_ilb_subsetting=true"
            )
        fields[path] = value
    return fields


def _at_odds(given: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields which flags contradict each other, and which would have no effect beside the others."""
    yield from _of_machines(given)
    if "reservations" not in given and given.get("capacity") == "reservation":
        yield _error("--capacity reservation names no reservation", "add --reservation NAME")
    elif "reservations" in given and given.get("capacity") not in (None, "reservation"):
        what = f"--capacity {given['capacity']} and --reservation do not go together"
        yield _error(what, "leave one of them out")
    for name in ("private_endpoint", "global_access"):
        if given.get(name) and not given.get("private"):
            yield _error(f"{_flag(name)} is for a private cluster", "add --private, or leave it out")
    queueing = given.get("queueing") or {"install": True}
    idle = [
        _FLAGS[f"queueing.{name}"]
        for name, value in queueing.items()
        if name != "install" and value is not None
    ]
    if idle and not queueing["install"]:
        what = f"{', '.join(idle)}: of JobSet, Kueue and the queue, which --no-install leaves out"
        yield _error(what, f"leave out --no-install, or {' and '.join(idle)}")


def _of_machines(given: Mapping[str, Any]) -> Iterator[Problem]:
    from tasks.config.accelerators import accelerator

    if "type" not in given:
        idle = [name for name in _OF_A_TYPE if name in given and (name, given[name]) != ("slices", 0)]
        if idle:
            told = ", ".join(map(_flag, idle))
            what = f"{told} {'says' if len(idle) == 1 else 'say'} how accelerators are, and there are none"
            yield _error(what, "add their type, such as --type v5litepod-16, or leave it out")
        return
    shape = accelerator(given["type"], given.get("topology"))
    tpu = shape.kind == "tpu"
    if tpu and "nodes" in given:
        hosts = f"a slice of {given['type']} has {shape.hosts} by itself"
        yield _error(f"--nodes counts machines of GPUs and CPUs, and {hosts}", "use --slices N in its place")
    if not tpu and "nodes" in given and "slices" in given:
        yield _error("--nodes and --slices both say how many machines", "leave out --slices")
    if shape.kind != "gpu" and "gpu_networks" in given:
        yield _error(f"--gpu-networks is for GPUs, which {given['type']} is not", "leave it out")
    if "placement_policy" in given and not (tpu and shape.hosts > 1):
        what = f"--placement-policy places hosts of a TPU slice, and {given['type']} needs none"
        yield _error(what, "leave it out")
    if "autoprovision" in given and given.get("slices") != 0:
        yield _error("--autoprovision takes the place of slices", "add --slices 0")


def _flag(field: str) -> str:
    return _FLAGS.get(field, f"--{field.replace('_', '-')}")


def _error(what: str, fix: str) -> Problem:
    return Problem("error", None, what, fix=fix)
