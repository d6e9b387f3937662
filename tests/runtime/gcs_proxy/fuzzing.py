"""For fuzzing: a proxy without sockets with objects of sizes that matter, and how often something is tried.

FUZZ_TIMES=N tries N times as much; tests/system/test_proxy_large.py does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from hypothesis import settings

from runtime.gcs_proxy.format import SEGMENT_BYTES
from tests.runtime.gcs_proxy.within import Within, within

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))
S, C = SEGMENT_BYTES, SEGMENT_BYTES - 28
CONTENT = random.Random(21).randbytes(13 * C + 777)
SIZES = [0, 1, C - 12, C - 11, C, C + 1, 2 * C - 12, 3 * C, 5 * C + 1000]
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType={}&name={}"
MEDIA = "/storage/v1/b/bkt/o/{}?alt=media"


def few(count: int) -> settings:
    return settings(max_examples=count * TIMES)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Within]:
    with within(tmp_path_factory.mktemp("within")) as made:
        for size in SIZES:
            assert made.ask("POST", UPLOAD.format("media", f"size-{size}"), CONTENT[:size])[0] == 200
        yield made
