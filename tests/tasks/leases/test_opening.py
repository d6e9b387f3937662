"""Which addresses a ledger may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.contract.errors import BadInput
from tasks.leases.opening import open_ledger


def test_a_ledger_that_is_not_there_yet_is_empty_and_one_below_a_file_is_refused(tmp_path: Path) -> None:
    assert list(open_ledger(str(tmp_path / "home" / "ledger")).listing().leases) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=f"{tmp_path}/file is no folder.*SLICEBENCH_HOME"):
        open_ledger(str(tmp_path / "file" / "ledger"))
