"""Stands in for a Prefect server or worker: says so, starts as many processes as it is told to, and sleeps."""

from __future__ import annotations

import subprocess
import sys
import time

for _ in range(int(sys.argv[1])):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("asleep", flush=True)
time.sleep(600)
