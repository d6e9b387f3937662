"""Opens this machine's ledger, what looks at all that its leases have, and the ledger that any address names."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.contract.errors import BadInput
from tasks.config.home import ledger_uri, scratch_folder
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.ledger import Ledger

if TYPE_CHECKING:
    from tasks.leases.inventory import Inventories, Inventory


def the_ledger() -> Ledger:
    """Returns the ledger that this machine's commands and flows write to. Raises BadInput as `open_ledger` does."""
    return open_ledger(ledger_uri())


def the_inventories(ledger: Ledger) -> Inventories:
    """Returns what looks at all that leases of the ledger have, and can be looked at from this machine.

    It is opened once it is asked: that makes the ledger's name, and who only lists things needs no ledger.
    """
    return _Later(ledger)


class _Later(Mapping[str, "Inventory"]):
    """The inventories, opened by whoever asks first. Safe in several threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._opened: Inventories | None = None

    def _all(self) -> Inventories:
        from tasks.leases.inventory import open_inventories

        with self._lock:
            if self._opened is None:
                self._opened = open_inventories(self._ledger, scratch_folder())
            return self._opened

    def __getitem__(self, kind: str) -> Inventory:
        return self._all()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def open_ledger(uri: str) -> Ledger:
    """Returns a ledger: a folder of this machine, or gs://bucket/folder.

    Makes nothing and asks nothing outside. Raises BadInput for another kind of address, and for a folder that
    cannot be.
    """
    from tasks.cloud.local_storage import LocalFolder
    from tasks.cloud.storage import open_folder

    folder = open_folder(uri)
    if isinstance(folder, LocalFolder):
        path = Path(folder.uri)
        # No ledger yet is an empty one; where none can ever be, "nothing is held" would be a comfort and no answer.
        there = next(one for one in (path, *path.parents) if one.exists())
        if not there.is_dir():
            raise BadInput(
                f"leases cannot be kept in {path}: {there} is no folder",
                fix="name another one by SLICEBENCH_HOME or SLICEBENCH_LEDGER",
            )
        return DirectoryLedger(path)
    from tasks.cloud.gs_storage import GsFolder
    from tasks.leases.gs_ledger import GsLedger

    assert isinstance(folder, GsFolder)
    if not folder.prefix:
        raise BadInput(
            f"{uri} is a whole bucket, and a ledger needs a folder of its own", fix=f"write {uri}/ledger"
        )
    return GsLedger(folder.bucket, folder.prefix)
