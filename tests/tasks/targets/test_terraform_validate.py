"""With Terraform itself (`make test-terraform`): what is exported is valid to Google's provider."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.targets.environment_terraform import export
from tests.tasks.targets.test_environment_terraform import CASES

pytestmark = pytest.mark.terraform


@pytest.mark.parametrize("case", CASES)
def test_it_is_valid(tmp_path: Path, case: str) -> None:
    terraform = shutil.which("terraform") or shutil.which("tofu")
    assert terraform, "neither terraform nor tofu is on the PATH"
    (tmp_path / "main.tf.json").write_text(json.dumps(export(CASES[case], "proj").document))
    for step in (("init", "-backend=false", "-input=false", "-no-color"), ("validate", "-no-color")):
        done = subprocess.run(
            [terraform, f"-chdir={tmp_path}", *step], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
