"""Two machines of one name are two places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.leases import directories, processes
from tasks.leases.directories import DirectoryInventory
from tasks.leases.machine import name_of, this_machine
from tasks.leases.processes import ProcessInventory, reference


def test_machines_of_one_name_are_told_apart(tmp_path: Path) -> None:
    ids = [tmp_path / "a", tmp_path / "b"]
    ids[0].write_text("3f2a9c01aaaabbbbccccddddeeeeffff\n")
    ids[1].write_text("77c0ffeeaaaabbbbccccddddeeeeffff\n")
    assert [name_of("vm", file) for file in ids] == ["vm/3f2a9c01", "vm/77c0ffee"]


@pytest.mark.parametrize("content", [None, "", "uninitialized\n"])
def test_one_without_an_id_goes_by_its_name(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "id").write_text(content)
    assert name_of("0a1b2c3d4e5f", tmp_path / "id") == "0a1b2c3d4e5f"


def test_what_is_on_another_machine_of_this_name_is_not_seen_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = reference(1, 0.0).scope
    assert here == this_machine()
    inventories = [ProcessInventory("ledger"), DirectoryInventory(tmp_path, "ledger")]
    assert all(inventory.sees(here) for inventory in inventories)
    for module in (processes, directories):
        monkeypatch.setattr(module, "this_machine", lambda: f"{here.partition('/')[0]}/77c0ffee")
    assert not any(inventory.sees(here) for inventory in inventories)
