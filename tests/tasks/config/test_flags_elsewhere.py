"""Flags of image builds, of the program in the container and of xpk: each has its place here, or a reason."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from flows.cli import cluster, image, workload
from tasks.config.request import RunRequest
from tests.tasks.config.test_gke_flags import DOCS

# flag → (the command, its flag here), or a word of what docs say instead.
ROWS: dict[str, tuple[Callable[..., Any], str] | str] = {
    "--project": (image.build, "repository"),
    "--image": (image.build, "repository"),
    "--tag": (image.build, "tag"),
    "--pr": (image.build, "pr"),
    "--branch": (image.build, "branch"),
    "local path": (image.build, "repo"),
    "--repo-url": (image.build, "repo"),
    "--jax-version": (image.build, "jax_version"),
    "--device": (image.build, "device"),
    "--base-image": (image.build, "base_image"),
    "--no-cache": (image.build, "no_cache"),
    "TensorFlow and clu": (image.build, "orbax_classes"),
    "docker build": (image.build, "builder"),
    "--script-dir": (image.build, "script_dir"),
    "--config_file": "slicebench run F",
    "--output_directory": (RunRequest, "output"),
    "--local_directory": (RunRequest, "local_directory"),
    "--enable_hlo_dump": (RunRequest, "debug_dumps"),
    "--remove_repeated_dir": "deleted once its restore has been checked",
    "--generate_fixture": "a worker that keeps its checkpoints makes one",
    "JAX_COORDINATOR_ADDRESS": "set for you",
    "JAX_NUM_PROCESSES": "set for you",
    "JAX_PROCESS_ID": "set for you",
    "JAX_COORDINATOR_PORT": "set for you",
    "JAX_PLATFORMS": "platform:",
    "cluster delete": (cluster.delete, "name"),
    "workload delete": (workload.delete, "names"),
    "--filter-by-status": (workload.list_, "status"),
    "--filter-by-job": (workload.list_, "filter_by_job"),
    "inspector": (workload.inspect, "to"),
}


@pytest.mark.parametrize("flag", ROWS)
def test_docs_say_where_it_went_and_the_command_takes_it(flag: str) -> None:
    rows = [line for line in DOCS.read_text().splitlines() if re.match(rf"\|[^|]*{re.escape(flag)}", line)]
    assert rows, f"docs/migration.md has no row for {flag}"
    told = " ".join(row.split("|", 2)[2] for row in rows)
    place = ROWS[flag]
    if isinstance(place, str):
        assert place in told
        return
    command, name = place
    assert name in taken_by(command)
    written = name.replace("_", "-")
    assert name in ("name", "names") or re.search(rf"--{written}\b|the same", told), told


def taken_by(command: Callable[..., Any]) -> set[str]:
    """Returns the names of all that a command takes, those of its groups of flags too."""
    if command is RunRequest:
        return set(RunRequest.model_fields)
    parameters = inspect.signature(command, eval_str=True).parameters
    groups = [one.annotation for one in parameters.values() if is_dataclass(one.annotation)]
    return {*parameters, *(one.name for group in groups for one in fields(group))}
