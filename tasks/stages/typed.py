"""Commands that rules name for any run, as one types them for this one: its suite, target, workload and cluster."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.cloud.kubernetes_places import flags_to, on_gke


def typed(commands: Sequence[str], request: Mapping[str, Any], ref: Mapping[str, Any] | None) -> list[str]:
    """Returns the commands, without those that mean nothing for this run. Pure.

    `request` is what its folder says of what was asked for, `ref` the workload that was started last in a cluster.
    """
    found = (_typed(command, request.get("request"), ref) for command in commands)
    return [command for command in found if command]


def _typed(command: str, asked: Any, ref: Mapping[str, Any] | None) -> str:
    what, gap, why = command.partition("   #")
    known = {"SUITE": "suite", "TARGET": "target"}
    words = {word: asked.get(key) for word, key in known.items()} if isinstance(asked, Mapping) else {}
    flags: Sequence[str] = ()
    if ref is not None:
        place = on_gke(str(ref["scope"]))
        words |= {"NAME": ref["name"], "CLUSTER": place["name"] if place else None}
        if what.startswith("slicebench workload ") and " … " not in what:
            flags = flags_to(str(ref["scope"]))
        elif what.startswith("slicebench cluster ") and place is None:
            return ""
        elif place is not None and what.startswith("slicebench cluster "):
            where = ["--location", place["location"]] if " describe " in what else []
            flags = [*where, "--project", place["project"]]
    for word, value in words.items():
        if value:
            quoted = shlex.quote(str(value)).replace("\\", r"\\")
            what = re.sub(rf"(?<= ){word}(?= |$)", quoted, what)
    return f"{' '.join([what, *(map(shlex.quote, flags))])}{gap}{why}"
