"""Starts our worker or Orbax's runner so that both do the same within a measured block: `MODULE ARGUMENT …`.

Orbax's own lines are logged on both sides, as its runner does. Of what Orbax's runner measures only the time is left:
its other counters are read, and logged, while its clock runs and while a save goes on in the background.
"""

from __future__ import annotations

import runpy
import sys

from absl import logging


def main(module: str) -> None:
    """Runs a module as `python -m` does, with the arguments that follow its name."""
    del sys.path[0]  # this file's folder
    logging.set_verbosity(logging.INFO)
    if module.startswith("orbax."):
        from orbax.checkpoint._src.testing.benchmarks.core import metric

        metric.default_metrics = lambda: ["time"]
    sys.argv = sys.argv[1:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
