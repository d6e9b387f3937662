"""A store and a proxy before it, which tests of the proxy share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Proxy, serving


@pytest.fixture(scope="session")
def shared_proxy(store_server: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One proxy before the stand-in for all tests of a process; all buckets are encrypted."""
    with serving(store_server.url, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared_proxy: Proxy, store: Store) -> Proxy:
    """The proxy, with a store that has no faults."""
    del store
    return shared_proxy


@pytest.fixture
def bucket(store: Store) -> str:
    """A new bucket."""
    return store.new_bucket()
