"""Opens the ledger that an address names: a folder of this machine, or gs://bucket/folder."""

from __future__ import annotations

from pathlib import Path

from runtime.contract.errors import BadInput
from tasks.config.home import ledger_uri
from tasks.leases.directory_ledger import DirectoryLedger
from tasks.leases.ledger import Ledger


def the_ledger() -> Ledger:
    """Returns the ledger that this machine's commands and flows write to. Raises BadInput as `open_ledger` does."""
    return open_ledger(ledger_uri())


def open_ledger(uri: str) -> Ledger:
    """Returns the ledger. Makes nothing and asks nothing outside. Raises BadInput for another kind of address."""
    from tasks.cloud.local_storage import LocalFolder
    from tasks.cloud.storage import open_folder

    folder = open_folder(uri)
    if isinstance(folder, LocalFolder):
        return DirectoryLedger(Path(folder.uri))
    from tasks.cloud.gs_storage import GsFolder
    from tasks.leases.gs_ledger import GsLedger

    assert isinstance(folder, GsFolder)
    if not folder.prefix:
        raise BadInput(
            f"{uri} is a whole bucket, and a ledger needs a folder of its own", fix=f"write {uri}/ledger"
        )
    return GsLedger(folder.bucket, folder.prefix)
