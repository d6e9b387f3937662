"""The Python that venvs on TPU VMs are made with: it is named before there are VMs, and brought where they lack it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runtime.contract.errors import InfrastructureError
from tasks.cloud.ssh_endpoint import Endpoint, Host
from tasks.cloud.ssh_errors import SshError
from tasks.config.tpu_target import TpuVmTargetConfig
from tasks.targets.types import Interpreter

if TYPE_CHECKING:
    from tasks.cloud.ssh import Pool

_BRING_S = 600.0
_LIBC = "glibc-2.35"
"""Of Ubuntu 22.04, which all runtime versions are made of."""

# Their own Python is 3.10, which Orbax does not support, and Ubuntu's packages have no newer one.
_BRING = """
set -eu
PATH="$HOME/.local/bin:$PATH"
command -v uv > /dev/null || python3 -m pip install --quiet --user uv
uv python install --quiet "$1"
"""


def promised(config: TpuVmTargetConfig) -> Interpreter:
    """Returns the Python that workers will have, for which packages are chosen while there are no workers yet."""
    version = config.venv_python
    return Interpreter(version, "linux-x86_64", f"CPython {version} linux-x86_64 {_LIBC}")


def bring_python(
    pool: Pool, endpoints: Sequence[Endpoint], config: TpuVmTargetConfig, say: Callable[[str], None]
) -> None:
    """Installs the promised Python, below the user's home, on workers that have none of its version.

    Raises InfrastructureError naming the first worker where that fails, SshError for one that does not answer.
    """
    from tasks.targets.ssh_venvs import find_pythons, usable_python

    version = config.venv_python
    found = find_pythons(pool, [Host(endpoint, None, config.folder) for endpoint in endpoints])
    lacking = [
        host.endpoint
        for host, pythons in found.items()
        if not any(usable_python(one, version) for one in pythons)
    ]
    if not lacking:
        return
    say(f"bringing Python {version} to {len(lacking)} of {len(endpoints)} workers")
    told = pool.each(
        lacking, lambda link: link.run(["sh", "-c", _BRING, "bring", version], timeout_s=_BRING_S)
    )
    for endpoint, ran in told.items():
        if isinstance(ran, SshError):
            raise ran
        if ran.code:
            raise InfrastructureError(
                f"Python {version} could not be brought to {endpoint} (exit code {ran.code}): "
                f"{' '.join(ran.errors.split())[-500:]}; let a script do it (setup:), or name one "
                "that is there (python:)"
            )
