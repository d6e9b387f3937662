"""Asks a host over a link, through a program of runtime/hosts/ that goes along with the request."""

from __future__ import annotations

import contextlib
import functools
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from tasks.cloud.calls import calling
from tasks.cloud.ssh_endpoint import Host
from tasks.cloud.ssh_errors import Unfit
from tasks.cloud.ssh_link import Link, Ran, Talk

Program = Literal["steward", "store", "pythons", "venv", "ram", "probe"]

_PROGRAMS = Path(__file__).parents[2] / "runtime" / "hosts"
_NO_SPACE = ("ENOSPC", "EDQUOT", "EFBIG")


def ask(
    link: Link,
    host: Host,
    op: str,
    *,
    program: Program = "steward",
    timeout_s: float = 60.0,
    packages: bool = False,
    **fields: Any,
) -> dict[str, Any]:
    """Returns the program's answer to a request; fields are those of the function named `op` there.

    `packages`: with site-packages, which takes longer to start. Raises Unreachable, and Unfit for what the
    host itself cannot do: no Python, no space, no permission.
    """
    request = _request(program, _text(program), op, fields)
    command = ["sh", "-c", _command(host, packages)]
    return _answer(host, op, link.run(command, request, timeout_s, called=f"{program} {op}"))


class Conversation:
    """Requests to one process on a host, which starts once for all of them. Used by one thread."""

    def __init__(self, host: Host, talk: Talk) -> None:
        self._host = host
        self._talk = talk
        self._known: set[str] = set()

    def ask(self, op: str, *, program: Program, timeout_s: float = 60.0, **fields: Any) -> dict[str, Any]:
        """Returns and raises what `ask` does."""
        text = b"" if program in self._known else _text(program)
        self._known.add(program)
        request = _request(program, text, op, fields)
        with calling("ssh", f"{self._host.endpoint} {program} {op}", timeout_s):
            ran = self._talk.exchange(request, timeout_s)
        return _answer(self._host, op, ran)


@contextlib.contextmanager
def converse(link: Link, host: Host) -> Iterator[Conversation]:
    """Opens a conversation with a host's Python."""
    with link.talk(["sh", "-c", _command(host)], called=host.python or "python3") as talk:
        yield Conversation(host, talk)


def _request(program: Program, text: bytes, op: str, fields: Mapping[str, Any]) -> bytes:
    """Returns a request as runtime/hosts/answers.py reads it."""
    asked = json.dumps({"op": op, **fields}).encode()
    return f"{program} {len(text)} {len(asked)}\n".encode() + text + asked


def _answer(host: Host, op: str, ran: Ran) -> dict[str, Any]:
    """Returns what a program answered; raises what it told instead."""
    told = " ".join(ran.errors.split())[-300:]
    if ran.code in (126, 127):
        python = host.python or "python3"
        fix = "correct python: in the target file, or install it there"
        raise Unfit(str(host), "python_missing", f"{python} cannot be run: {told}", fix)
    try:
        reply: dict[str, Any] = json.loads(ran.output)
    except ValueError:
        what = f"its Python gave no answer to {op!r} (exit code {ran.code}): {told or ran.output[:200]!r}"
        raise Unfit(str(host), "failed", what, "it must be Python 3.9 or newer, on Linux") from None
    if "error" in reply:
        raise _failure(host, op, reply["error"], reply["errno"])
    answer: dict[str, Any] = reply["answer"]
    return answer


def _command(host: Host, packages: bool = False) -> str:
    """Returns a line for sh. A configured Python that is gone must not keep us from cleaning up."""
    options = "-I" if packages else "-I -S"
    run = f"{options} -c {shlex.quote(_text('answers').decode())}"
    if host.python is None:
        return f"exec python3 {run}"
    python = shell_path(host.python)
    if packages:
        return f"exec {python} {run}"
    return f"if [ -x {python} ]; then exec {python} {run}; else exec python3 {run}; fi"


def shell_path(path: str) -> str:
    """Returns a path quoted for sh, but for a `~/` at its beginning."""
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)


def _failure(host: Host, op: str, error: str, code: str) -> Unfit:
    if code in _NO_SPACE:
        return Unfit(str(host), "no_space", f"its disk is full: {error}", "free some space there")
    if code in ("EACCES", "EPERM", "EROFS"):
        fix = "choose another folder: or output: in the target file"
        return Unfit(str(host), "permission", f"{host.endpoint.user} may not do that: {error}", fix)
    return Unfit(str(host), "failed", f"{op} failed: {error}")


@functools.cache
def _text(program: Program | Literal["answers"]) -> bytes:
    return (_PROGRAMS / f"{program}.py").read_bytes()
