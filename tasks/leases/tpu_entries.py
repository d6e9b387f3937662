"""What a run leaves in the metadata of a TPU VM that is not its own: its key, and who uses the TPU. Gone afterwards.

The metadata is where everybody looks who may use the TPU, whatever their ledger; so it is the lock on the cloud's
side. Nothing there compares and swaps: after writing, one waits a little and looks whose entry stands.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from runtime.contract.record import record_of
from tasks.cloud.ssh_keys import with_key, without_key
from tasks.cloud.timing import Timing
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_errors import NotFound
from tasks.cloud.tpu_model import OS_LOGIN, Node
from tasks.leases.holding import Holding
from tasks.leases.inventory import Found, Pace
from tasks.leases.lease import State
from tasks.leases.locks import Locked
from tasks.leases.resource import ResourceRef
from tasks.leases.tpus import InCloudTpu, in_projects, projects_of

ENTRY = "tpu_entry"
"""The kind. Its name is NODE@LEASE, its scope as of the node."""

TERM_S = 3600.0
"""An entry counts for so long after it was written or written again, seconds; then others may take the TPU."""

REFRESH_S = TERM_S / 3
KEY_ENDS_AFTER_S = 7 * 86400.0
"""A key that nobody could take away is taken away there, by the guest itself, after so long."""

_FIELD = "slicebench-lock"
_PACE = Pace(look_every_s=1.0, goes_within_s=120.0, remote=True)
_TIMING = Timing(total_s=30.0)
_NEVER_AGAIN = frozenset({"PREEMPTED", "TERMINATED", "DELETING"})
_SHOWS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Entry:
    """Who uses a TPU: lease, ledger, owner for people, the public half of its key, from when and until when."""

    lease: str
    ledger: str
    owner: str
    key: str
    since: float
    until: float


class _Held(Exception):
    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.lease)
        self.entry = entry


def enter(
    tpu: CloudTpu,
    holding: Holding,
    node: Node,
    user: str,
    public_key: str,
    *,
    wait_s: float = 0.0,
    say: Callable[[str], None] = lambda line: None,
    settle_s: float = 3.0,
    poll_s: float = 5.0,
) -> ResourceRef:
    """Takes a TPU VM for the lease in hand and has its key opened there; both go back with the lease.

    Waits for at most `wait_s` seconds while another uses it. Raises Locked, naming who does; BadInput where no
    key would open it; TpuError.
    """
    refuse_os_login(node)
    deadline = time.monotonic() + wait_s
    told = ""

    def make() -> str:
        nonlocal told
        while True:
            try:
                tpu.set_metadata(node.zone, node.name, _taking(holding, user, public_key))
                return _settled(tpu, holding, node, settle_s)
            except _Held as held:
                who = f"TPU VM {node.name} in {node.zone} is used by {_told(held.entry)}"
                if time.monotonic() >= deadline:
                    raise Locked(f"{who}; wait for it with --wait-for-lock, or stop that run") from held
            if who != told:
                told = who
                say(f"waiting for at most {deadline - time.monotonic():.0f} s: {who}")
            time.sleep(poll_s)
            holding.check()

    scope = f"{node.project}/{node.zone}"
    return holding.create(ENTRY, scope, _name(node.name, holding.lease.lease_id), make)


def refuse_os_login(node: Node) -> None:
    """Raises BadInput for a TPU VM whose guest takes no notice of keys in its metadata, the way that a run gets in."""
    if node.os_login:
        raise BadInput(
            f"TPU VM {node.name} in {node.zone} has OS Login on (metadata {OS_LOGIN}): it takes no key from its "
            "metadata, which is how a run gets in",
            fix=f"gcloud compute tpus tpu-vm update {node.name} --zone={node.zone} --project={node.project} "
            f"--update-metadata={OS_LOGIN}=FALSE",
        )


def refresh(
    tpu: CloudTpu, holding: Holding, user: str, public_key: str, *, within_s: float = REFRESH_S
) -> str:
    """Writes again what the lease has entered and was not written for `within_s` seconds, or is gone.

    Returns who uses a TPU VM instead, where another's entry took the place of ours; empty: all is ours. Raises
    TpuError, Fenced.
    """
    for ref in [ref for ref in holding.lease.resources if ref.kind == ENTRY]:
        zone, name = ref.scope.partition("/")[2], ref.name.rpartition("@")[0]
        entry = read(tpu.node(zone, name).metadata)
        mine = entry is not None and _is_of(entry, holding)
        if entry is not None and mine and entry.until > time.time() + TERM_S - within_s:
            continue
        if entry is None or mine or not _counts(entry, holding, time.time()):
            holding.check()  # of a lease that was lost nothing is written any more
        try:
            tpu.set_metadata(zone, name, _taking(holding, user, public_key))
        except _Held as held:
            return f"TPU VM {name} in {zone} was taken from this run: it is used by {_told(held.entry)}"
    return ""


def read(metadata: Mapping[str, str]) -> Entry | None:
    """Returns who uses a TPU VM, by its metadata; None: nobody, or nobody whose entry can be read."""
    try:
        fields: dict[str, Any] = json.loads(metadata.get(_FIELD, "{}"))
        return record_of(Entry, fields) if fields else None
    except (ValueError, TypeError):
        return None


class TpuEntryInventory(InCloudTpu):
    """Entries in the metadata of TPU VMs that are not ours. See Inventory."""

    kind = ENTRY
    after = frozenset({"host_process", "host_directory"})
    """What is on the hosts is asked to go by way of the key."""

    usual = _PACE

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory."""
        return in_projects(
            ENTRY, projects_of(self._ledger, lease_id), lambda project: self._in_project(project, lease_id)
        )

    def _in_project(self, project: str, lease_id: str | None) -> Iterator[Found]:
        for node in CloudTpu(project, timing=_TIMING).nodes():
            entry = self._entry(node)
            if entry is not None and lease_id in (None, entry.lease):
                name = _name(node.name, entry.lease)
                yield Found(entry.lease, ResourceRef(ENTRY, f"{node.project}/{node.zone}", name, name))

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. A VM that will not run again has no entry any more: nobody gets in."""
        project, _, zone = ref.scope.partition("/")
        name, _, lease_id = ref.name.rpartition("@")
        try:
            node = CloudTpu(project, timing=_TIMING).node(zone, name)
        except NotFound:
            return None
        entry = self._entry(node)
        return replace(ref, uid=ref.name) if entry is not None and entry.lease == lease_id else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory."""
        project, _, zone = ref.scope.partition("/")
        name, _, lease_id = ref.name.rpartition("@")

        def change(there: Mapping[str, str]) -> Mapping[str, str]:
            entry = read(there)
            if entry is None or (entry.lease, entry.ledger) != (lease_id, self._ledger.id):
                return there
            return _without(there, entry)

        try:
            CloudTpu(project, timing=_TIMING).set_metadata(zone, name, change)
        except NotFound:
            return

    def _entry(self, node: Node) -> Entry | None:
        entry = read(node.metadata) if node.state not in _NEVER_AGAIN else None
        return entry if entry is not None and entry.ledger == self._ledger.id else None


def _taking(holding: Holding, user: str, public_key: str) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Returns what puts the lease's entry and key into metadata, unless another's entry stands there."""

    def change(there: Mapping[str, str]) -> Mapping[str, str]:
        now, before = time.time(), read(there)
        mine = before is not None and _is_of(before, holding)
        if before is not None and not mine and _counts(before, holding, now):
            raise _Held(before)
        rest = _without(there, before) if before is not None else there
        entry = Entry(
            lease=holding.lease.lease_id,
            ledger=holding.ledger.id,
            owner=str(holding.lease.owner),
            key=public_key.split()[1],
            since=before.since if before is not None and mine else now,
            until=now + TERM_S,
        )
        keyed = with_key(rest, user, public_key, now + KEY_ENDS_AFTER_S)
        return {**keyed, _FIELD: json.dumps(asdict(entry))}

    return change


def _settled(tpu: CloudTpu, holding: Holding, node: Node, settle_s: float) -> str:
    """Looks after a little while whose entry stands; raises _Held when another overwrote ours at that moment."""
    begin = time.monotonic()
    while True:
        time.sleep(settle_s)
        entry = read(tpu.node(node.zone, node.name).metadata)
        if entry is not None and _is_of(entry, holding):
            return _name(node.name, holding.lease.lease_id)
        if entry is not None and _counts(entry, holding, time.time()):
            raise _Held(entry)
        if time.monotonic() - begin > _SHOWS_WITHIN_S:
            raise InfrastructureError(
                f"what was written into the metadata of {node.name} does not show there"
            )


def _counts(entry: Entry, holding: Holding, now: float) -> bool:
    """Says whether somebody else's entry still holds the TPU."""
    if entry.ledger == holding.ledger.id:
        lease = holding.ledger.read(entry.lease)
        if lease is None or lease.state is State.GONE:
            return False
    return entry.until > now


def _is_of(entry: Entry, holding: Holding) -> bool:
    return (entry.lease, entry.ledger) == (holding.lease.lease_id, holding.ledger.id)


def _without(metadata: Mapping[str, str], entry: Entry) -> Mapping[str, str]:
    rest = {name: value for name, value in metadata.items() if name != _FIELD}
    return without_key(rest, f"ssh {entry.key}")


def _name(node: str, lease_id: str) -> str:
    return f"{node}@{lease_id}"


def _told(entry: Entry) -> str:
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(entry.since))
    until = time.strftime("%H:%M UTC", time.gmtime(entry.until))
    return f"lease {entry.lease} of {entry.owner}, since {at}, at least until {until}"
