"""Reads a target file for whoever makes something of it: the fields of GKE's API that it names are checked as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput, Problem
from runtime.contract.yamlfile import load, place_of, read_text
from tasks.config.load import load_target

if TYPE_CHECKING:
    from tasks.config.cluster_make import ClusterMake
    from tasks.config.target import TargetConfig


def checked_target(path: Path) -> TargetConfig:
    """Returns a target file's model. Raises BadInput with all problems, each with line and column. Asks nobody."""
    config = load_target(path)
    make = config.cluster.make if config.kind == "gke" and config.cluster is not None else None
    if make is not None and (problems := list(_wrong_fields(path, make))):
        raise BadInput(problems)
    return config


def _wrong_fields(path: Path, make: ClusterMake) -> Iterator[Problem]:
    root = load(read_text(path), str(path)).root
    assert root is not None
    for field in ("cluster_fields", "cpu_pool_fields", "pool_fields"):
        for name, value in getattr(make, field).items():
            # Here: it needs the whole of GKE's API, and few files name a field of it.
            from tasks.targets.cluster_requests import passed_through

            try:
                passed_through(field, {}, {name: value})
            except BadInput as error:
                place = place_of(root, ("cluster", "make", field, name))
                yield from (replace(problem, place=place) for problem in error.problems)
