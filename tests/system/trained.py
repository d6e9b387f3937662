"""For tests of acceptances: a suite that trains for a few seconds, and the way to a stand-in of Cloud Storage."""

from __future__ import annotations

from tests.cloud.store.running import Store

OPTIONS = {
    "train_steps": 40,
    "save_interval_steps": 10,
    "layers": 2,
    "width": 64,
    "step_s": 0.25,  # so that it is not over before it is stopped, however late its lines come
    "max_to_keep": 9,
}
TRAINING = {"generator": "runtime.benchmarks.training.Training", "options": OPTIONS}
SUITE = {"suite_name": "T", "benchmarks": [TRAINING]}


def ways_to(store: Store) -> dict[str, str]:
    """Returns the variables by which all programs find it in the place of Cloud Storage."""
    return {
        "STORAGE_EMULATOR_HOST": store.url,
        "TENSORSTORE_GCS_HTTP_URL": store.url,
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        "GOOGLE_CLOUD_PROJECT": "p",
    }
