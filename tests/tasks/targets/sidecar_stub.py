"""Plays a proxy of somebody else's in a pod, by its environment: it shares a certificate once it is up, and may die.

PROXY_CERT_PATH: the certificate's file. STUB_FOLDER: where it leaves `starts`, a letter for each of its starts, and
looks for `die` (then its first start ends with 7). STUB_DOES: ends (with 3, before it is up), hangs (is never up).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType


def main() -> None:
    signal.signal(signal.SIGTERM, _ended)
    folder, does = Path(os.environ["STUB_FOLDER"]), os.environ.get("STUB_DOES", "")
    starts = folder / f"starts-{os.environ['HOSTNAME']}"
    with starts.open("a") as file:
        file.write("x")
    number = starts.stat().st_size
    print(f"proxy begins, start {number}", flush=True)
    if does == "ends":
        print("no key for my bucket: s3cret-token", file=sys.stderr, flush=True)
        sys.exit(3)
    if does != "hangs":
        Path(os.environ["PROXY_CERT_PATH"]).write_text(f"certificate {number}")
    while True:
        if number == 1 and (folder / "die").exists():
            print("out of buffers", flush=True)
            sys.exit(7)
        time.sleep(0.02)


def _ended(number: int, frame: FrameType | None) -> None:
    print("proxy ends", flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
