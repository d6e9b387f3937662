"""The reaper's image, built by buildah from its real Dockerfile, gives back what a lost machine made in the clouds."""

# ruff: noqa: F811 (fixtures are imported, and named by parameters)

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.leases.ledger import Ledger
from tasks.leases.opening import open_ledger
from tests.chaos.test_kill_tpu_run import others_of
from tests.cloud.tpu.running import Cloud
from tests.system.buildah import address, base, buildah, debian, engine  # noqa: F401
from tests.tasks.leases.container import DEPLOYMENT, ROOT, Reaped, of_the_clouds
from tests.tasks.leases.test_reap_once import launched, lose_the_laptop, stored

pytestmark = [pytest.mark.system, pytest.mark.timeout(3000)]  # a minute, on a quiet machine

IMAGE = "localhost/slicebench-reaper"


@pytest.fixture(scope="module")
def image(base: str) -> str:
    words = ("--build-arg", f"BASE_IMAGE={base}", "--tls-verify=false", "--tag", IMAGE)
    buildah("build", *words, "--file", str(DEPLOYMENT / "Dockerfile"), str(ROOT))
    return IMAGE


@pytest.fixture
def ledger(gcs_bucket: str) -> Ledger:
    return open_ledger(f"{gcs_bucket}/ledger")


def start(image: str, *words: str) -> Reaped:
    """Runs the image's entry point as the image's user. Of this environment it has only where the clouds are."""
    config = json.loads(buildah("inspect", "--type", "image", image))["OCIv1"]["config"]
    argv: Sequence[str] = [*config["Entrypoint"], "--json", *words]
    clouds = [f"{name}={value}" for name, value in os.environ.items() if of_the_clouds(name)]
    name = f"reaper-{uuid.uuid4().hex[:8]}"
    buildah("from", "--name", name, "--pull-never", image)
    try:
        done = subprocess.run(
            ["buildah", "run", *(word for one in clouds for word in ("--env", one)), name, "--", *argv],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
    finally:
        buildah("rm", name)
    return Reaped(done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr)


def test_the_image_holds_what_it_needs_and_no_more(image: str) -> None:
    name = f"look-{uuid.uuid4().hex[:8]}"
    buildah("from", "--name", name, "--pull-never", image)
    try:
        there = set(buildah("run", name, "--", "find", "/app", "-maxdepth", "2").split())
        who = buildah("run", name, "--", "id", "-u").strip()
    finally:
        buildah("rm", name)
    assert {"/app/tasks/leases", "/app/runtime/contract", "/app/runtime/__init__.py"} <= there
    assert not {
        path for path in there if "__pycache__" in path or path.startswith(("/app/flows", "/app/tests"))
    }
    assert who == "65532", "nobody's user"


def test_it_gives_back_what_a_lost_machine_made(
    image: str, tpu_cloud: Cloud, ledger: Ledger, tmp_path: Path
) -> None:
    launched(ledger, tmp_path)
    lose_the_laptop(ledger)
    others = others_of(tpu_cloud, "run-e1")
    assert len(tpu_cloud.inventory()) > len(others)
    done = start(image, "--ledger", ledger.uri, "--watch", "0.3")
    assert (done.code, done.did) == (0, {"run-e1": "released in part"}), done.said
    assert tpu_cloud.inventory() == others
    # What only that machine can look at is named, and waits for it.
    assert {ref.kind for ref in stored(ledger).resources} == {"directory"}
    again = start(image, "--ledger", ledger.uri, "--watch", "0.3")
    assert (again.code, again.did) == (0, {"run-e1": "not reachable"}), again.said
