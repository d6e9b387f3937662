"""Reads an environment's file with its overrides: every problem at its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.contract.errors import BadInput, Problem
from runtime.contract.overrides import graft
from runtime.contract.yamlfile import place_of
from tasks.config import environment
from tasks.config.beside_file import with_manifests
from tasks.config.environment import EnvironmentConfig, crossed
from tasks.config.environment_cluster import NoCluster, cluster_of
from tasks.config.load import root_of, validated


def load_environment(path: Path | str, overrides: Sequence[str] = ()) -> EnvironmentConfig:
    """Returns an environment's model. Raises BadInput with all problems, each with line and column.

    `overrides` are KEY=VALUE, KEY a path such as `tpu.topology`; what is wrong with one is told of it.
    """
    root = root_of(Path(path))
    if overrides:
        root = graft(root, overrides, example="tpu_pools=0")
    config = validated(root, EnvironmentConfig, "environment")
    queueing = with_manifests(config.queueing, Path(path).absolute().parent)
    config = config.model_copy(update={"queueing": queueing})
    wrong = [Problem("error", place_of(root, where), told) for where, told in _wrong(config)]
    if wrong:
        raise BadInput(list(dict.fromkeys(wrong)))
    return config


def _wrong(config: EnvironmentConfig) -> Iterator[tuple[environment.Path, str]]:
    """Yields what does not go together; the cluster as a whole is looked at once its parts are right."""
    found = list(crossed(config))
    yield from found
    if not found:
        try:
            cluster_of(config)
        except NoCluster as error:
            yield from error.wrong
