"""A benchmark that gives a secret away in every way that it has: prints, logs, names of metrics, its own error."""

from __future__ import annotations

import base64
import logging
import os
import sys
from dataclasses import dataclass
from urllib.parse import quote

import jax

from runtime.benchmarks.benchmark import Benchmark, Context


@dataclass(frozen=True)
class Options:
    """`fail`: end with an error that holds the secret."""

    fail: bool = False


class Leaky(Benchmark):
    """Measures next to nothing."""

    options_class = Options

    def run(self, context: Context) -> None:
        secret = os.environ["LEAKY_TOKEN"]
        print(
            "told on stdout:",
            secret,
            quote(secret, safe=""),
            base64.b64encode(f"user:{secret}".encode()).decode(),
        )
        print("told on stderr:", secret, file=sys.stderr, flush=True)
        logging.getLogger("leaky").error("told by logging: %s", secret)
        with context.measure(f"operation {secret}"):
            jax.monitoring.record_event(f"/leaky/{secret}")
        context.value(f"operation {secret}", f"metric {secret}", 1.0, "count")
        if self.options.fail:
            raise RuntimeError(f"{secret} was refused")
