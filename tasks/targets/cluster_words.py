"""Commands about clusters of GKE as people can type them: all that a target says of its cluster is in them. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.config.gke_target import GkeTargetConfig

_ZONE = re.compile(r".+-.+-[a-z]")


def create_words(config: GkeTargetConfig) -> str:
    """Returns the command that makes the cluster of a target as its runs need it; empty: there is none, for the target
    names none by place, or one with networks of its own.
    """
    if config.cluster is None or config.gpu_networks:
        return ""
    return shlex.join(["slicebench", "cluster", "create", *_of(config)])


def resize_words(config: GkeTargetConfig, name: str) -> str:
    """Returns the command that gives a cluster that `cluster create` made as many machines as a target needs."""
    project = config.cluster.project if config.cluster is not None else None
    words = ["slicebench", "cluster", "resize", name, *_size(config)]
    return shlex.join([*words, *(["--project", project] if project else [])])


def _of(config: GkeTargetConfig) -> Iterator[str]:
    place, shape = config.cluster, config.shape
    assert place is not None
    location = place.location or ""
    zone = place.zone or location
    yield place.name
    if _ZONE.fullmatch(zone):
        yield from ("--zone", zone)
        if zone == location:
            yield "--zonal"
    if shape.machine_type:
        yield from ("--type", config.type)
        if config.topology:
            yield from ("--topology", config.topology)
        yield from _size(config)
        if place.capacity:
            yield from ("--capacity", place.capacity)
        for reservation in place.reservations:
            yield from ("--reservation", reservation)
        if config.gpu_networks == ():
            yield from ("--gpu-networks", "none")
    for field, value in place.make_fields.items():
        flag = f"--{field.replace('_', '-')}"
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag.removeprefix('--')}"
        elif isinstance(value, str | int):
            yield from (flag, str(value))
    if place.project:
        yield from ("--project", place.project)


def _size(config: GkeTargetConfig) -> list[str]:
    if config.shape.kind == "tpu":
        return ["--slices", str(config.slices)]
    return ["--nodes", str(config.slices * config.shape.hosts)]
