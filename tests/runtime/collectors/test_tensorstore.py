"""TensorStore's counters, against an array of known size; and their units."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore as ts

from runtime.collectors.tensorstore import counters, tensorstore
from runtime.measure import Collector

Measure = Callable[[Collector], AbstractContextManager[dict[str, float]]]
SIDE = 512
CHUNKS = 16


def open_array(path: Path) -> Any:
    """Opens an uncompressed array of CHUNKS files."""
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": str(path)},
        "metadata": {
            "shape": [CHUNKS * SIDE, SIDE],
            "chunks": [SIDE, SIDE],
            "dtype": "<f8",
            "compressor": None,
        },
        "create": True,
        "open": True,
    }
    return ts.open(spec).result()


def test_known_amount_written_and_read(tmp_path: Path, measuring: Measure) -> None:
    data = np.random.default_rng(0).random((CHUNKS * SIDE, SIDE))
    with measuring(tensorstore()) as told:
        open_array(tmp_path / "a").write(data).result()
    assert told["tensorstore/kvstore/file/bytes_written"] == pytest.approx(data.nbytes, rel=0.05)
    assert told["tensorstore/kvstore/file/write"] == pytest.approx(CHUNKS, abs=2)
    with measuring(tensorstore()) as told:
        assert np.array_equal(open_array(tmp_path / "a").read().result(), data)
    assert told["tensorstore/kvstore/file/bytes_read"] == pytest.approx(data.nbytes, rel=0.05)
    assert "tensorstore/kvstore/file/bytes_written" not in told


def test_units_gauges_and_distributions() -> None:
    told = counters(
        [
            {"name": "/tensorstore/kvstore/file/bytes_read", "values": [{"value": 7}]},
            {
                "name": "/tensorstore/cache/hits",
                "values": [{"category": "a", "value": 1}, {"category": "b", "value": 2}],
            },
            {"name": "/tensorstore/pool/work_time_ns", "values": [{"value": 2e9}]},
            {"name": "/tensorstore/futures/live", "values": [{"value": 3, "max_value": 9}]},
            {"name": "/tensorstore/next", "values": [{"value": "1970-01-01"}]},
            {"name": "/tensorstore/read_latency_ms", "values": [{"0": 1, "count": 4, "mean": 250.0}]},
            {"name": "/tensorstore/ocdbt/write_size", "values": [{"0": 1, "count": 2, "mean": 50.0}]},
        ]
    )
    assert told == {
        ("tensorstore/kvstore/file/bytes_read", "bytes"): 7,
        ("tensorstore/cache/hits/a", "count"): 1,
        ("tensorstore/cache/hits/b", "count"): 2,
        ("tensorstore/pool/work_time_s", "s"): 2,
        ("tensorstore/read_latency_count", "count"): 4,
        ("tensorstore/read_latency_s", "s"): 1,
        ("tensorstore/ocdbt/write_size_count", "count"): 2,
        ("tensorstore/ocdbt/write_size_sum", "bytes"): 100,
    }
