"""Stands in for `slicebench run`: notes that it was called and leaves an outcome as the file NIGHT_STUB says.

That file maps a suite's or target's name to: code, causes, trouble; `hang`: goes on until SIGINT; `stubborn`:
beyond it; `silent`: leaves no outcome.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def main() -> None:
    stopped = []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(1))  # before it is heard of
    words = sys.argv[1:]
    resumed = words[0] == "--resume"
    run_id = words[1] if resumed else words[words.index("--run-id") + 1]
    folder = os.path.join(words[words.index("--output") + 1], run_id)  # noqa: PTH118 (pathlib takes a tenth of a second)
    with open(os.environ["NIGHT_STUB"]) as file:  # noqa: PTH123
        plans = json.load(file)
    with open(os.environ["NIGHT_STUB"] + ".calls", "a") as calls:  # noqa: PTH123
        calls.write(("resume " if resumed else "run ") + run_id + "\n")
    plan = next((plans[name] for name in plans if name in run_id), {})
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    if not resumed:
        _write(folder, "request.json", {"request": {}, "words": words})
    while plan.get("stubborn") or (plan.get("hang") and not stopped):
        time.sleep(0.01)
    if plan.get("silent"):
        print("the last words", file=sys.stderr)
        sys.exit(plan.get("code", 3))
    code = 130 if stopped else plan.get("code", 0)
    now = time.time()
    _write(folder, "stages/build.json", {"finished_at": now - 3600})
    _write(folder, "stages/teardown.json", {"finished_at": now})
    outcome = {
        "run_id": run_id,
        "exit_code": code,
        "verdict": "PASS" if code == 0 else None,
        "causes": plan.get("causes", [] if code == 0 else ["it went wrong"]),
        "trouble": plan.get("trouble"),
        "report": None,
        "finished_at": now,
        "took_s": 7200.0,
    }
    _write(folder, "outcome.json", outcome)
    print(json.dumps(outcome))
    sys.exit(code)


def _write(folder: str, name: str, content: object) -> None:
    path = os.path.join(folder, name)  # noqa: PTH118
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    with open(f"{path}.new", "w") as file:  # noqa: PTH123
        json.dump(content, file)
    os.rename(f"{path}.new", path)  # noqa: PTH104 (whoever reads it reads all of it)


if __name__ == "__main__":
    main()
