"""What goes to the workers beside the suite: who they are measuring, and which names are secret."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from runtime.contract.job import Deadlines
from runtime.contract.names import SECRET_NAMES_VARIABLE, SOURCE_VARIABLE
from runtime.contract.redaction import REDACTED
from runtime.manifest import environment
from tasks.config.request import RunRequest
from tasks.config.target import LocalTargetConfig
from tasks.stages.context import Run
from tasks.stages.prepare import resolve
from tasks.stages.upload import workload_of
from tasks.targets.types import Image


def test_what_env_files_give_is_recorded_too(tmp_path: Path) -> None:
    file = tmp_path / "some.env"
    file.write_text("MY_MODE=fast\nHF_TOKEN=hush\n")
    asked = RunRequest(suite="quickstart", output=str(tmp_path), env=["MINE=1"], env_file=[str(file)])
    folder = SimpleNamespace(uri="/runs/r")
    run = cast(Run, SimpleNamespace(spec=resolve(asked, {}), folder=folder))
    recorded = environment(workload_of(run, Image("venv", "k1", "/venv/bin/python")).env)
    assert recorded == {"HF_TOKEN": REDACTED, "MINE": "1", "MY_MODE": "fast"}


def test_workers_learn_the_commit_that_was_built_and_which_names_are_secret() -> None:
    spec = SimpleNamespace(
        run_id="r",
        env={"XLA_FLAGS": "--a", "HF_TOKEN": "hush", "MINE": "hush too"},
        secret_env=frozenset({"HF_TOKEN", "MINE"}),
        deadlines=Deadlines(),
        debug_dumps=False,
        local_directory=None,
        target=LocalTargetConfig(kind="local"),
    )
    run = cast(Run, SimpleNamespace(spec=cast(Any, spec), folder=SimpleNamespace(uri="/runs/r")))
    image = Image("venv", "k1", "/venv/bin/python", {"commit": "abc"})

    env = workload_of(run, image).env

    assert json.loads(env[SOURCE_VARIABLE]) == {"commit": "abc", "image": "k1"}
    assert env[SECRET_NAMES_VARIABLE] == "HF_TOKEN,MINE"
    recorded = environment(env)
    assert recorded["XLA_FLAGS"] == "--a"
    assert "hush" not in json.dumps(recorded)
