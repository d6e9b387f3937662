"""Runs uv: with the user's index settings and nothing secret, its failures told by what to do next."""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runtime.contract.errors import BadInput, InfrastructureError, SlicebenchError
from tasks.cloud.command import Finished, clean_environment, run_command

_TIMEOUT_S = 1800.0
# uv's own, 60 s for a file, is too short on a machine whose cores are all taken.
_COMPILE = {"UV_COMPILE_BYTECODE_TIMEOUT": "600"}
_PASSED = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INDEX_STRATEGY"
    r"|INDEX_\w+_(USERNAME|PASSWORD)|KEYRING_PROVIDER|NATIVE_TLS|SYSTEM_CERTS|INSECURE_HOST|HTTP_TIMEOUT|HTTP_RETRIES"
    r"|OFFLINE|CACHE_DIR|LINK_MODE|CONFIG_FILE|NO_CONFIG|EXCLUDE_NEWER|CONCURRENT_\w+|COMPILE_BYTECODE_TIMEOUT)"
)
_INDEX = re.compile(r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX)")
_PIP_OPTIONS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "cert": "SSL_CERT_FILE",
}
_UNREACHABLE = re.compile(
    r"error sending request|failed to fetch|connection|dns error|timed out|network connectivity is disabled"
    r"|network was disabled|failed to download",
    re.IGNORECASE,
)


def run_uv(*arguments: str, cwd: Path, jax_index: str | None = None, foreign_code: bool = False) -> Finished:
    """Runs uv to a good end. `foreign_code`: it may run a build backend, which gets to see no password.

    `jax_index` comes before the usual indexes: a URL, a folder of wheels, or a folder laid out as an index.

    Raises BadInput when no set of packages fits, InfrastructureError when index or disk fail.
    """
    from uv import find_uv_bin

    env = uv_environment(os.environ, foreign_code=foreign_code)
    if jax_index is not None:
        env |= _with_index(jax_index, env)
    done = run_command([find_uv_bin(), *arguments], env=env, timeout_s=_TIMEOUT_S, cwd=cwd)
    if done.code != 0:
        raise _failure(arguments, done)
    return done


def uv_environment(environ: Mapping[str, str], *, foreign_code: bool = False) -> dict[str, str]:
    """Returns what uv gets to see: index settings, its own or else pip's, proxies, certificates, cache."""
    env = {name: value for name, value in environ.items() if _PASSED.fullmatch(name) and value}
    pip = _pip_settings(environ)
    if not any(_INDEX.fullmatch(name) for name in env):
        env |= {name: value for name, value in pip.items() if name != "SSL_CERT_FILE"}
        if "UV_INDEX" in env:
            # pip takes the best version from all of its indexes; so must we, to find what pip finds.
            env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    env = {**{name: value for name, value in pip.items() if name == "SSL_CERT_FILE"}, **env}
    env |= clean_environment(environ)
    if foreign_code:
        env = {
            name: _without_credentials(value)
            for name, value in env.items()
            if not name.endswith(("_USERNAME", "_PASSWORD"))
        }
    return _COMPILE | env | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}


def _with_index(index: str, env: Mapping[str, str]) -> dict[str, str]:
    # By variables: an option on the command line would replace what the variables say, not add to it.
    folder = Path(index)
    if any(folder.glob("*.whl")):
        return {"UV_FIND_LINKS": ",".join(filter(None, (str(folder), env.get("UV_FIND_LINKS"))))}
    url = folder.as_uri() if folder.is_dir() else index
    return {"UV_INDEX": " ".join(filter(None, (url, env.get("UV_INDEX"))))}


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns pip's settings by uv's names for them. Source: pip's configuration files, then variables."""
    found: dict[str, str] = {}
    for file in _pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file)
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip itself complains about it; we only borrow what can be read
        for section in ("global", "install"):
            if parser.has_section(section):
                found |= {key.replace("_", "-"): value for key, value in parser.items(section)}
    for option in _PIP_OPTIONS:
        value = environ.get(f"PIP_{option.upper().replace('-', '_')}")
        if value:
            found[option] = value
    return {
        _PIP_OPTIONS[option]: ",".join(value.split()) if option == "find-links" else " ".join(value.split())
        for option, value in found.items()
        if option in _PIP_OPTIONS and value.strip()
    }


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    override = environ.get("PIP_CONFIG_FILE")
    if override == os.devnull:
        return
    home = Path(environ.get("HOME", "/nonexistent"))
    yield Path("/etc/pip.conf")
    yield home / ".pip" / "pip.conf"
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if override:
        yield Path(override)


def _without_credentials(text: str) -> str:
    return re.sub(r"(://)[^/@\s]+@", r"\1", text)


def _failure(arguments: Sequence[str], done: Finished) -> SlicebenchError:
    told = _without_credentials(" ".join(done.errors.split()))
    told = re.sub(r"^error: ", "", told)[-1500:]
    what = "uv " + " ".join(word for word in arguments[:2] if not word.startswith("-"))
    if "No space left on device" in told or "os error 28" in told:
        return InfrastructureError(
            f"{what}: the disk is full: {told}; free some space, or move $SLICEBENCH_HOME"
        )
    if "Bytecode timed out" in told:
        return InfrastructureError(
            f"{what}: this machine is too busy: {told}; run it again, with a larger UV_COMPILE_BYTECODE_TIMEOUT "
            "(seconds) if need be"
        )
    if _UNREACHABLE.search(told):
        return InfrastructureError(
            f"{what}: the package index cannot be reached: {told}; is UV_DEFAULT_INDEX right?"
        )
    if "No solution found" in told:
        return BadInput(f"no set of packages fits: {told.partition('cause: ')[2] or told}")
    if "build backend returned an error" in told:
        return BadInput(f"the source does not build: {told}", fix="correct it, or name another branch")
    return InfrastructureError(f"{what} failed: {told or f'exit code {done.code}'}")
