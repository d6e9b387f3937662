"""Answers requests on a host, one after another, by programs that come with the first request to each.

Run as text by the host's Python. A request is a line `NAME PROGRAM-BYTES REQUEST-BYTES`, then the program's text, empty
once it is known, then JSON {"op": …, …}. Its answer is a line of JSON: {"answer": …}, or {"error": …, "errno": …}.
"""

from __future__ import annotations

import errno
import json
import sys
from typing import Any


def main() -> None:
    """Answers until there is nothing more to read, or half a request."""
    said = sys.stdin.buffer
    known: dict[str, dict[str, Any]] = {}
    while head := said.readline().split():
        name, sizes = head[0].decode(), [int(size) for size in head[1:]]
        text, asked = (said.read(size) for size in sizes)
        if [len(text), len(asked)] != sizes:
            return
        if text:
            known[name] = {"__name__": name}
            exec(compile(text, name, "exec"), known[name])
        print(json.dumps(answer(known[name]["OPERATIONS"], json.loads(asked))), flush=True)


def answer(operations: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Returns what an operation of a program returned, or what the operating system refused it."""
    try:
        return {"answer": operations[request.pop("op")](**request)}
    except OSError as error:
        return {"error": str(error), "errno": errno.errorcode.get(error.errno or 0, "")}


if __name__ == "__main__":
    main()
