"""Stands in for `slicebench workload create` and `delete`, and for a program that trains in its pods.

The folder PROGRAM_STUB says what it does (`does`: nothing, and it does right; anew: it does not resume; ends: after one
checkpoint; drifts: after a restart its losses are others; broken: the command fails; stays: it cannot be deleted) and
hears of `calls`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    words, told = sys.argv[1:], Path(os.environ["PROGRAM_STUB"])
    with (told / "calls").open("a") as calls:
        calls.write(f"{words[0]} {words[1]}\n")
    does = (told / "does").read_text() if (told / "does").exists() else ""
    there = told / f"{words[1]}.there"
    if words[0] == "delete":
        assert "--missing-ok" in words  # it may never have been made
        time.sleep(0.3)  # meanwhile it trains, and tells of it
        if does != "stays":
            there.unlink(missing_ok=True)
        print("it cannot be deleted" if does == "stays" else "deleted", file=sys.stderr)
        return 3 if does == "stays" else 0
    if does == "broken":
        print("slicebench: the cluster refuses it", file=sys.stderr)
        return 2
    there.touch()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
    folder = Path(words[-1])
    saved = sorted(int(path.name) for path in folder.iterdir()) if folder.exists() else []
    step, saves = -10, list[int]()
    if saved and does != "anew":
        step = saved[-1]
        say(f"restored step {step} in 0.5 s")
        say(f"step {step + 1}: loss {1.0 / (step + 21)!r}")
    while not stopped and there.exists():
        if does == "drifts" and len(saves) == 3 and not saved and "reference" not in str(folder):
            time.sleep(0.05)  # no further: what comes after the restart, the reference alone has done
            continue
        off = 21 if does == "drifts" and saved else 20
        for trained in range(step + 2, step + 11):
            say(f"step {trained}: loss {1.0 / (trained + off)!r}")
        step += 10
        saves.append(step)
        (folder / str(step)).mkdir(parents=True, exist_ok=True)
        (folder / str(step) / "_METADATA").write_text(json.dumps({"plain": True}))
        (folder / str(step) / "commit_success.txt").write_text("done")
        say(f"saved step {step} in 0.25 s")
        say(f"step {step + 1}: loss {1.0 / (step + 21)!r}")
        if does == "ends":
            there.unlink(missing_ok=True)
            return 0
        time.sleep(0.05)
    return 130


def say(text: str) -> None:
    print(f"[pod-0] {text}\n[pod-1] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
