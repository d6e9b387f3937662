"""Finds a run that lies in no output that was named: its lease knows where its folder is."""

from __future__ import annotations

from collections.abc import Callable

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.storage import Folder, is_there, open_folder
from tasks.config.home import runs_folder
from tasks.leases.ledger import Ledger
from tasks.stages.files import REQUEST_FILE
from tasks.stages.past import LATEST, find_run


def find_anywhere(output: str | None, word: str, open_ledger: Callable[[], Ledger]) -> Folder:
    """Returns the folder of the run that `word` means, in `output` (None: the usual one); where that has none and no
    other was named, of the run that has a lease of this name or id. Raises BadInput.
    """
    try:
        return find_run(open_folder(output or str(runs_folder())), word)
    except BadInput:
        if output is not None or word == LATEST or (folder := _by_lease(word, open_ledger())) is None:
            raise
        return folder


def _by_lease(word: str, ledger: Ledger) -> Folder | None:
    """Returns the folder of the run that held a lease last, if it is there; None also where nobody can look."""
    try:
        leases = ledger.listing().leases if ledger.exists() else ()
        held = [one for one in leases if one.folder and word in (one.run_id, one.name, one.lease_id)]
        if not held:
            return None
        folder = open_folder(max(held, key=lambda one: one.renewed_at).folder)
        return folder if is_there(folder, REQUEST_FILE) else None
    except InfrastructureError:
        return None
