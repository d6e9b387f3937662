"""First-run setup of made machines: the user's own script on every worker, once for each content of it.

On a fresh VM unattended upgrades hold apt's locks for minutes: that is waited for, and whoever holds them named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from runtime.contract.counting import counted
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.ssh import Pool
from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import SshError
from tasks.cloud.ssh_link import Link

LOCKS_S = 300
"""How long apt's locks are waited for, seconds."""

_APT_LOCKS = "/var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock"

# Locks of other users' processes show in /proc/locks, which needs no privilege, unlike fuser.
_WRAPPER = """
set -u
marker="$HOME/.slicebench/setup/$1"; limit=$2; locks=$3
[ -e "$marker" ] && exit 0
mkdir -p "$(dirname "$marker")" || exit 1
# Whoever comes again over a new link, as the old one broke, waits until the script that it left behind has ended.
exec 9> "$marker.lock" && flock 9 || exit 1
[ -e "$marker" ] && exit 0
script="$marker.sh"
cat > "$script" && chmod 700 "$script" || exit 1
holder() {
  for lock in $locks; do
    inode=$(stat -c %i "$lock" 2>/dev/null) || continue
    pid=$(awk -v i=":$inode\\$" '$2 != "->" && $6 ~ i {print $5; exit}' /proc/locks)
    [ -n "$pid" ] && { echo "$lock is held by process $pid: $(tr '\\0' ' ' < /proc/$pid/cmdline)"; return; }
  done
}
waited=0
while told=$(holder); [ -n "$told" ]; do
  [ "$waited" -ge "$limit" ] && { echo "$told, for longer than $limit s" >&2; exit 75; }
  sleep 1; waited=$((waited + 1))
done
"$script" < /dev/null > "$marker.log" 2>&1 9>&-
code=$?
[ "$code" -eq 0 ] && : > "$marker" || tail -n 20 "$marker.log" >&2
exit "$code"
"""


def set_up(
    pool: Pool,
    endpoints: Sequence[Endpoint],
    script: Path,
    say: Callable[[str], None],
    *,
    timeout_s: float = 3600.0,
    locks_s: int = LOCKS_S,
    locks: str = _APT_LOCKS,
) -> None:
    """Runs a script on all workers at once, where it did not run yet. Its output stays there, in
    ~/.slicebench/setup. Raises BadInput when it cannot be read, InfrastructureError naming the first that failed.
    """
    try:
        content = script.expanduser().read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the setup script {script}: {error.strerror}") from error
    if not content.startswith(b"#!"):
        content = b"#!/bin/sh\n" + content
    digest = hashlib.sha256(content).hexdigest()[:16]
    say(f"setting up {counted(len(endpoints), 'worker')} with {script.name}, unless they are")
    command = ["sh", "-c", _WRAPPER, "setup", digest, str(locks_s), locks]

    def task(link: Link) -> str:
        ran = link.run(command, content, timeout_s)
        return "" if ran.code == 0 else f"exit code {ran.code}: {ran.errors.strip()[-500:]}"

    told = pool.each(endpoints, task)
    failed = {endpoint: answer for endpoint, answer in told.items() if answer}
    for endpoint, answer in failed.items():
        if isinstance(answer, SshError):
            raise answer
        raise InfrastructureError(
            f"{script.name} failed on {endpoint}" + (f" and {len(failed) - 1} more" if len(failed) > 1 else "")
            + f": {answer}; its output is in ~/.slicebench/setup/{digest}.log there"
        )  # fmt: skip


def script_of(name: str) -> Path:
    """Returns where a setup script is: as named from here, else from slicebench's own folder."""
    path = Path(name).expanduser()
    ours = Path(__file__).parents[2] / name
    return ours if not path.exists() and ours.exists() else path
