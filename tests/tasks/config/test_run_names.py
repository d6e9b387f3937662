"""What runs, and the leases that they use again, may be called."""

from __future__ import annotations

import pytest

from runtime.contract.errors import BadInput
from tasks.config.run_names import checked_lease_name, checked_run_id


@pytest.mark.parametrize("name", ["nightly-1", "cluster-mine_proj", "cluster-a-b_example-com-proj"])
def test_leases_of_runs_and_of_clusters_are_used_again(name: str) -> None:
    assert checked_lease_name(name) == name


@pytest.mark.parametrize("name", ["../r", "tpu_x", "cluster-_p", "cluster-mine_P", "-a"])
def test_what_names_neither_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of a run"):
        checked_lease_name(name)


def test_no_run_is_called_as_the_lease_of_a_cluster() -> None:
    with pytest.raises(BadInput):
        checked_run_id("cluster-mine_proj")
