"""Commands that a message names, with the flags that lead them to where the command that was typed has looked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from runtime.contract.quoting import quoted

_WHERE = ("context", "kubeconfig", "cluster", "location", "project", "target", "namespace")
_LEADS: Mapping[str, Sequence[str]] = {
    "workload": _WHERE,
    "cluster": ("project",),
    "tpu": ("project",),
    "runs": ("output",),
    "history": ("history",),
    "env": ("set", "project"),
}
"""By group: the flags that say where. Whoever typed one of them has to type it again."""
_ALIASES = {"zone": "location"}
_NAMED = r"slicebench (?P<group>\w+)(?P<rest>(?: [\w^$.=/:-]+)*)"


def aimed(text: str, words: Sequence[str]) -> str:
    """Returns a message, each command in it completed by those flags of the command line `words` that it needs."""
    given = _given(words)
    if not given or "slicebench " not in text:
        return text
    return re.sub(_NAMED, lambda found: _led(found, given), text)


def _led(found: re.Match[str], given: Mapping[str, Sequence[str]]) -> str:
    group, rest = found["group"], found["rest"].split(" ")
    flags = [name for name in _LEADS.get(group, ()) if name in given]
    said = any(f"--{name}" in rest for name in (*_LEADS.get(group, ()), "help"))
    if said or not flags or (group == "workload" and "create" in rest):
        return found[0]
    dot = "." if found[0].endswith(".") else ""
    told = " ".join(f"--{name} {quoted(value)}" for name in flags for value in given[name])
    return f"{found[0].removesuffix('.')} {told}{dot}"


def _given(words: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Returns by their names the flags that say where, of a command line up to what is handed on as it is."""
    if not words or words[0] not in _LEADS:
        return {}
    own = list(words[: words.index("--")] if "--" in words else words)
    given: dict[str, list[str]] = {}
    for at, word in enumerate(own):
        flag, equal, value = word.partition("=")
        name = _ALIASES.get(flag.removeprefix("--"), flag.removeprefix("--"))
        if not flag.startswith("--") or name not in _LEADS[words[0]]:
            continue
        value = value if equal else own[at + 1] if at + 1 < len(own) else ""
        if value and not (not equal and value.startswith("-")):
            given[name] = [*given.get(name, ()), value] if name == "set" else [value]
    return given
