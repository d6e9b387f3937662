"""The least that an environment's file says, read with whatever else a test has it say."""

from __future__ import annotations

from pathlib import Path

from tasks.config.environment import EnvironmentConfig
from tasks.config.environment_file import load_environment

LEAST = """\
region: us-central2
zone: us-central2-b
record: gs://records/environments
network: {name: net, subnet: sub}
cluster: {name: mine}
bucket: {name: artifacts}
"""


def loaded(tmp_path: Path, text: str, *overrides: str) -> EnvironmentConfig:
    path = tmp_path / "e.yaml"
    path.write_text(text)
    return load_environment(path, overrides)
