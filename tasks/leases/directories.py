"""The inventory of scratch folders on this machine: each names its lease in a file of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.contract.errors import InfrastructureError
from runtime.contract.job import LEASE_VARIABLE, LEDGER_VARIABLE
from tasks.leases.inventory import HERE, Found
from tasks.leases.machine import this_machine
from tasks.leases.resource import ResourceRef

_LABEL = ".slicebench-lease.json"


class DirectoryInventory:
    """Folders right below one root. Those without a label are never touched. See Inventory."""

    kind = "directory"
    pace = HERE
    settle_s = 0.0
    after = frozenset({"process", "host_process", "host_directory", "tpu_entry"})
    """What writes there, and what is entered with a key that lies there."""

    def __init__(self, root: Path, ledger_id: str) -> None:
        self._root = root
        self._ledger_id = ledger_id

    def sees(self, scope: str) -> bool:
        """See Inventory. The scope of a folder is its host."""
        return scope == this_machine()

    def list(self, lease_id: str | None) -> Sequence[Found]:
        """See Inventory."""
        found = []
        for label in sorted(self._root.glob(f"*/{_LABEL}")):
            lease = self._lease_of(label.parent)
            if lease and lease_id in (None, lease):
                found.append(Found(lease, reference(label.parent)))
        return found

    def get(self, ref: ResourceRef) -> ResourceRef | None:
        """See Inventory. Only a folder that still carries a label of this ledger is ours."""
        return ref if self._lease_of(Path(ref.name)) else None

    def delete(self, ref: ResourceRef, *, force: bool) -> None:
        """See Inventory. The label goes last: a deletion cut short is found again."""
        folder = Path(ref.name)
        if folder.parent != self._root or not self._lease_of(folder):
            return
        try:
            for entry in folder.iterdir():
                if entry.name == _LABEL:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink(missing_ok=True)
            shutil.rmtree(folder)
        except OSError as error:
            raise InfrastructureError(f"cannot delete {folder}: {error}") from error

    def _lease_of(self, folder: Path) -> str | None:
        try:
            label = json.loads((folder / _LABEL).read_bytes())
        except (OSError, ValueError):
            return None
        return str(label[LEASE_VARIABLE]) if label.get(LEDGER_VARIABLE) == self._ledger_id else None


def make(folder: Path, labels: Mapping[str, str]) -> str:
    """Makes a folder labelled with a lease; returns its uid. One that carries this label already is used.

    Raises InfrastructureError when it cannot be made, or belongs to another lease.
    """
    label = json.dumps(dict(labels), sort_keys=True)
    file = folder / _LABEL
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not file.exists():
            file.write_text(label)
        elif file.read_text() != label:
            raise InfrastructureError(f"{folder} belongs to another lease: {file.read_text()}")
    except OSError as error:
        raise InfrastructureError(f"cannot make {folder}: {error.strerror}") from error
    return str(folder)


def reference(folder: Path) -> ResourceRef:
    """Returns a folder as a resource."""
    return ResourceRef("directory", this_machine(), str(folder), uid=str(folder))
