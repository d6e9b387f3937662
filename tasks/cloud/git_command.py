"""Runs git: with nothing of our environment but what it needs, and with errors that say what can be done."""

from __future__ import annotations

import os
import re
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from tasks.cloud.command import Finished, TimedOut, clean_environment, run_command
from tasks.config.source import is_local
from tasks.config.spec import SourceSpec

ASK_S = 60.0
FETCH_S = 900.0

_UNREACHABLE = re.compile(
    r"(could not|couldn't) (resolve (host|proxy)|connect)|name resolution|name or service not known|failed to connect"
    r"|connection (timed out|refused|reset)|operation timed out|network is unreachable|no route to host",
    re.IGNORECASE,
)
_OFFLINE = (
    "is the network up, and does it take a proxy (HTTPS_PROXY)? Without it: --repo PATH of a clone on this machine, "
    "--commit with a full hash that was fetched before, or no --repo, for released packages in the venv that is there"
)
_PASSED = (
    "SSH_AUTH_SOCK",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSL_CAINFO",
)


def ask_remote(source: SourceSpec, folder: Path | None, *arguments: str, timeout_s: float) -> Finished:
    """Has git talk to the remote. Raises InfrastructureError, saying what can be done, when that cannot be reached."""
    try:
        done = git(folder, *arguments, timeout_s=timeout_s)
    except TimedOut as error:
        why = f"it did not answer within {timeout_s:.0f} s"
        raise InfrastructureError(f"{source.repo} cannot be reached: {why}; {_OFFLINE}") from error
    said = _without_secrets(done.errors)
    if done.code != 0 and (cause := _UNREACHABLE.search(said)):
        raise InfrastructureError(
            f"{source.repo} cannot be reached: {said[cause.start() :][:200]}; {_OFFLINE}"
        )
    return done


def git(
    folder: Path | None,
    *arguments: str,
    timeout_s: float = ASK_S,
    stdout: int | None = None,
) -> Finished:
    """Runs git on this machine in `folder`; its exit code is the caller's to judge."""
    # Without a folder of its own, git must not read the settings of whatever repository we stand in.
    return run_command(
        ["git", "-C", str(folder or "/"), *arguments],
        env=_environment(),
        timeout_s=timeout_s,
        stdout=stdout,
    )


def checked(finished: Finished, what: object) -> Finished:
    """Returns what git answered. Raises InfrastructureError where it failed at reading `what`."""
    if finished.code != 0:
        reason = _without_secrets(finished.errors)[-500:]
        fix = "is the address right, and may you read it?"
        if "dubious ownership" in reason:
            fix = "the folder belongs to somebody else"
        raise InfrastructureError(f"git cannot read {what}: {reason or f'exit code {finished.code}'}; {fix}")
    return finished


def url_of(source: SourceSpec) -> str:
    """Returns the address of a source's repository as git takes it."""
    assert source.repo is not None
    return Path(source.repo).as_uri() if is_local(source.repo) else source.repo


def _environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        **clean_environment(),
        **passed,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:ssh:file",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


def _without_secrets(said: str) -> str:
    """Returns what git said, on one line, without what stands before an @ in addresses."""
    return " ".join(re.sub(r"(://)[^/@\s]+@", r"\1", said).split())
