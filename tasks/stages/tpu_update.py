"""The developer loop on a TPU: the code of a branch, pull request or fork, at one commit, becomes what workers import.

A clone on each worker stands at that commit, detached; it is installed there as it lies (editable), so that the next
update is a fetch and a checkout. After each update the worker is asked where it would import Orbax from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.git import resolve_commit
from tasks.config.source import is_local
from tasks.config.spec import SourceSpec
from tasks.stages.tpu_workers import Answer, Place, run_on

SETUP = "configs/setup/tpu-vm.sh"
PYTHON = "~/slicebench-venv/bin/python"
"""What that script makes."""

FOLDER = "~/.slicebench"
"""Where the clone is on each worker, as `source`."""

_TIMEOUT_S = 1800.0

_COMMON = """
set -eu
python=$1 folder=$2; shift 2
case $python in "~/"*) python=$HOME/${python#"~/"};; esac
case $folder in "~/"*) folder=$HOME/${folder#"~/"};; esac
[ -x "$python" ] || { echo "$python is not there" >&2; exit 78; }
[ -d "$folder" ] || mkdir -p "$folder"
exec 9> "$folder/source.lock"
flock -w 600 9 || { echo "another update is under way on this worker" >&2; exit 75; }
uv=$(PATH="$HOME/.local/bin:$PATH" command -v uv || true)
install() {
  if [ -n "$uv" ]; then "$uv" pip install --quiet --python "$python" "$@"
  else "$python" -m pip install --quiet --disable-pip-version-check "$@"; fi
}
"""

_CODE = """
url=$1 ref=$2 sha=$3 discard=$4
tree=$folder/source
[ -d "$tree" ] || mkdir -p "$tree"
cd "$tree"
tree=$(pwd -P)
[ -d .git ] || git init --quiet .
if [ "$discard" = no ] && git rev-parse --quiet --verify HEAD > /dev/null && ! git diff --quiet HEAD; then
  echo "$tree has changes of yours: $(git diff --name-only HEAD | head -n 3 | tr '\\n' ' ')" >&2
  exit 73
fi
if ! git cat-file -e "$sha^{commit}" 2> /dev/null; then
  # Not every server gives out a commit by its hash. By the ref that is kept here, the next one tells what it has;
  # without it every update would bring the whole tree.
  git fetch --quiet --depth 1 --no-tags -- "$url" "+$sha:refs/slicebench/last" 2> /dev/null ||
    git fetch --quiet --depth 1 --no-tags -- "$url" "+$ref:refs/slicebench/last"
fi
git -c advice.detachedHead=false checkout --quiet --force --detach "$sha"
git clean --quiet -fd
package=.
[ -f checkpoint/pyproject.toml ] && package=checkpoint
where() {
  (cd / && "$python" -c '
import os, sys
# As importlib.util.find_spec does it; that takes half as long again to be imported.
try: import orbax
except ModuleNotFoundError: tried = []
else: tried = [finder.find_spec("orbax.checkpoint", orbax.__path__) for finder in sys.meta_path]
origins = [spec.origin for spec in tried if spec and spec.origin]
print(os.path.realpath(origins[0]) if origins else "nowhere")')
}
ours() { case $found in "$tree"/*) true;; *) false;; esac; }
found=$(where)
mark=$folder/source.installed
key="$package $(git hash-object "$package/pyproject.toml") $python"
had=
[ -f "$mark" ] && read -r had < "$mark" || true
if [ "$had" != "$key" ] || ! ours; then
  install --editable "$tree/$package"
  printf %s "$key" > "$mark"
  found=$(where)
fi
ours || { echo "orbax.checkpoint would be imported from $found, not from $tree" >&2; exit 70; }
git rev-parse HEAD
"""

_JAX = """
install "$@"
(cd / && "$python" -c 'import importlib.metadata as m; print(m.version("jax"))')
"""

_REASONS = {
    73: "commit or undo them there, or give --discard",
    75: "try again",
    78: "set the TPU up first: slicebench tpu update NAME --setup configs/setup/tpu-vm.sh",
}


@dataclass(frozen=True)
class Updated:
    """What all workers have now: the commit of Orbax that they import, the version of JAX; empty: left as it was."""

    workers: int
    commit: str = ""
    ref: str = ""
    jax: str = ""


def update(
    places: Sequence[Place],
    source: SourceSpec,
    *,
    python: str = PYTHON,
    folder: str = FOLDER,
    discard: bool = False,
    heard: Callable[[Answer], None] = lambda answer: None,
) -> Updated:
    """Brings all workers to one commit of the source, or to one JAX, or both; looks that they would import it.

    Raises BadInput for what does not exist or is only on this machine, InfrastructureError naming the worker.
    """
    if source.repo is None and source.jax_version == "locked":
        raise BadInput(
            "there is nothing to update", fix="give --branch, --pr, --commit, --repo or --jax-version"
        )
    done = Updated(len(places))
    if source.jax_version != "locked":
        words = _jax_words(source)
        done = Updated(len(places), jax=_everywhere(places, _COMMON + _JAX, [python, folder, *words], heard))
    if source.repo is None:
        return done
    if is_local(source.repo):
        raise BadInput(
            f"{source.repo} is on this machine, where the workers cannot fetch it",
            fix="push it to a fork and name that with --repo; slicebench run --repo PATH brings a local tree",
        )
    commit = resolve_commit(source)
    words = [python, folder, source.repo, commit.ref, commit.sha, "yes" if discard else "no"]
    told = _everywhere(places, _COMMON + _CODE, words, heard)
    return Updated(len(places), told, commit.ref, done.jax)


def _jax_words(source: SourceSpec) -> list[str]:
    """Returns what the installer is asked for."""
    version, index = source.jax_version, source.jax_index
    wanted = "jax[tpu]" if version in ("newest", "nightly") else f"jax[tpu]=={version}"
    words = ["--upgrade", wanted]
    if version == "nightly":
        words += ["--pre"]
    if index is not None:
        if is_local(index):
            raise BadInput(f"{index} is a folder on this machine", fix="name an index by its URL")
        words += ["--find-links" if index.startswith("file:") else "--extra-index-url", index]
    return words


def _everywhere(
    places: Sequence[Place], script: str, words: Sequence[str], heard: Callable[[Answer], None]
) -> str:
    """Runs a script on all workers; returns its last line, which must be the same on all of them."""
    answers = run_on(places, ["sh", "-c", script, "update", *words], _TIMEOUT_S, heard)
    failed = [answer for answer in answers if answer.code]
    if failed:
        first = failed[0]
        if first.ran is None:
            assert first.error is not None
            raise first.error
        told = first.ran.errors.strip().splitlines()
        fix = _REASONS.get(first.code)
        raise InfrastructureError(
            f"worker {first.place.index} was not updated"
            + (f", nor were {len(failed) - 1} more" if len(failed) > 1 else "")
            + f": {told[-1] if told else f'exit code {first.code}'}"
            + (f": {fix}" if fix else "")
        )
    last = {answer.ran.output.decode().strip().splitlines()[-1] for answer in answers if answer.ran}
    if len(last) != 1:
        raise InfrastructureError(f"workers differ after the update: {', '.join(sorted(last))}")
    return last.pop()
