"""A real browser draws the report, light and dark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tasks.stages.report import report
from tests.system.prefect_station import PATIENCE_S
from tests.tasks.stages.test_report import finished


@pytest.mark.system
@pytest.mark.parametrize("scheme", ["0", "1"])
def test_a_browser_draws_it(tmp_path: Path, scheme: str) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium: apt-get install chromium")
    where = report(finished(tmp_path))
    shot = tmp_path / "shot.png"
    subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={tmp_path / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}",
         f"--screenshot={shot}", "--window-size=900,1200", f"file://{where}"],
        check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    from matplotlib import image

    pixels = image.imread(shot)[..., :3]
    paper = pixels[5, 5].mean()
    assert paper < 0.2 if scheme == "0" else paper > 0.95
    assert pixels.std() > 0.05
