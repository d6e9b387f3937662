"""The Python on this machine that a target file names, for workers to run in instead of a venv that is built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError, Problem
from tasks.cloud.command import clean_environment, run_command
from tasks.config.target import LocalTargetConfig
from tasks.targets.interpreter import PACKAGES, PROXY_PACKAGES, unfit, wanted
from tasks.targets.types import Image

_CUDA_PLUGINS = ("jax-cuda13-plugin", "jax-cuda12-plugin")
_ASK_S = 60.0
# As workers see it: not isolated, so that what a user installed for themselves counts.
_ASK = """
import importlib.metadata, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
sys.stdout.write("\\n" + json.dumps(versions))
"""


def ask(python: str) -> dict[str, str]:
    """Returns the versions of an interpreter here and of the packages in it that matter.

    Raises BadInput when it is none.
    """
    argv = [str(Path(python).expanduser()), "-c", _ASK, *PACKAGES, *PROXY_PACKAGES, *_CUDA_PLUGINS]
    try:
        done = run_command(argv, env=clean_environment(), timeout_s=_ASK_S, cwd=Path("/"))
        versions: dict[str, str] = json.loads(done.text.rpartition("\n")[2])
    except InfrastructureError as error:
        raise _no_python(python, str(error)) from error
    except ValueError as error:
        raise _no_python(python, done.errors.strip()[-300:] or "it does not answer as Python does") from error
    return versions


def judge(config: LocalTargetConfig, versions: Mapping[str, str]) -> list[Problem]:
    """Returns what keeps workers from running in the interpreter that a target names. Pure."""
    python = config.python or ""
    if problem := unfit(python, python, versions, wanted(config)):
        return [problem]
    if config.platform == "gpu" and not any(name in versions for name in _CUDA_PLUGINS):
        what = f"{python} has no CUDA plugin for JAX, so JAX would not see the GPUs"
        fix = f"{python} -m pip install 'jax[cuda13]'; with a driver older than CUDA 13, 'jax[cuda12]'"
        return [Problem("error", None, what, fix=fix)]
    return []


def faults(config: LocalTargetConfig) -> list[Problem]:
    """Looks at the interpreter that a target names; returns what keeps workers from running in it."""
    try:
        return judge(config, ask(config.python or ""))
    except BadInput as refusal:
        return list(refusal.problems)


def brought(config: LocalTargetConfig) -> Image:
    """Returns the interpreter that a target names as what workers run. Raises BadInput when they cannot."""
    python = config.python or ""
    versions = ask(python)
    if problems := judge(config, versions):
        raise BadInput(problems)
    path = str(Path(python).expanduser())
    told = {name: version for name, version in versions.items() if name not in PROXY_PACKAGES}
    return Image("venv", path, path, {"ref": "the Python that the target names"}, told, True)


def _no_python(python: str, why: str) -> BadInput:
    return BadInput(
        Problem("error", None, f"{python} cannot be run", why, "correct python: in the target file")
    )
