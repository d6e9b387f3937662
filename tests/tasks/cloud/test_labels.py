"""Labels: always legal, and lease and ledger can be read back from them exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.contract.errors import BadInput
from tasks.cloud.labels import labels_for, read_labels

_KEY = re.compile(r"[a-z][-_a-z0-9]{0,62}")
_VALUE = re.compile(r"[-_a-z0-9]{0,63}")
_LEASES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,125}", fullmatch=True)


@given(_LEASES, st.text(max_size=100), st.none() | st.floats(0, 4e9))
def test_labels_are_legal_and_read_back(lease: str, owner: str, expires: float | None) -> None:
    labels = labels_for(lease, "0a1b2c", owner, expires)
    assert all(_KEY.fullmatch(key) and _VALUE.fullmatch(value) for key, value in labels.items())
    read = read_labels(labels)
    assert read is not None
    assert (read.lease_id, read.ledger_id) == (lease, "0a1b2c")
    assert read.expires_at == (None if expires is None else int(expires))


@pytest.mark.parametrize("lease", ["", "Run-1", "a" * 127, "-a", "a/b"])
def test_what_cannot_be_read_back_is_refused(lease: str) -> None:
    with pytest.raises(BadInput, match="cannot be written into labels"):
        labels_for(lease, "abc")


def test_what_slicebench_did_not_make_has_no_lease() -> None:
    assert read_labels({"slicebench-lease": "a"}) is None
    assert read_labels({"owner": "jan"}) is None
