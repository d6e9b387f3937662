"""Reads the one context of a kubeconfig that somebody named. Never the current one, and nothing is ever written."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput
from runtime.contract.nearest import nearest
from tasks.cloud.kubernetes_access import Access, Tokens
from tasks.cloud.kubernetes_entries import Entry, trust
from tasks.cloud.plain_yaml import plain_yaml

_LONGEST = 8 << 20
"""Bytes of a kubeconfig: people have hundreds of clusters in one, with their certificates."""
_PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}
_NOT_OURS = ("as", "as-groups", "as-uid", "as-user-extra", "auth-provider")


def by_context(context: str, kubeconfig: str | None = None, namespace: str | None = None) -> Access:
    """Returns the access to the cluster of a context: in the file given, else in those of $KUBECONFIG, else in
    ~/.kube/config. Raises BadInput when there is no such file or context, or it asks for what we cannot do.
    """
    files = config_files(kubeconfig)
    entries = _Entries([(file, _read(file)) for file in files])
    chosen = entries.named("contexts", context)
    if chosen is None:
        raise _unknown(context, entries.names("contexts"), files)
    cluster, user = entries.cluster(context, chosen), entries.user(context, chosen)
    name, password = user.text("username"), user.text("password")
    return Access(
        name=f"context {context}",
        server=cluster.text("server").rstrip("/"),
        namespace=namespace or str(chosen.get("namespace") or "default"),
        trust=_trust(context, cluster, user),
        tokens=_tokens(context, user),
        login=(name, password) if name and password else None,
        server_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url"),
    )


def gke_of(context: str) -> tuple[str, str, str] | None:
    """Returns project, location and name of the cluster of GKE that a context is of, where gcloud made it."""
    kind, *parts = context.split("_")
    return (parts[0], parts[1], parts[2]) if kind == "gke" and len(parts) == 3 else None


def config_files(kubeconfig: str | None = None, environ: Mapping[str, str] = os.environ) -> Sequence[Path]:
    """Returns the files to read. Raises BadInput when none is there."""
    if kubeconfig:
        file = Path(kubeconfig).expanduser()
        if not file.is_file():
            what = "is a folder" if file.is_dir() else "is not there"
            raise BadInput(f"kubeconfig {kubeconfig} {what}", fix="name the file")
        return [file]
    listed = environ.get("KUBECONFIG", "")
    candidates = [Path(part) for part in listed.split(os.pathsep) if part] or [
        Path(environ.get("HOME", "/")) / ".kube" / "config"
    ]
    files = [file for file in candidates if file.is_file()]
    if not files:
        named = ", ".join(map(str, candidates))
        raise BadInput(
            f"there is no kubeconfig: {named} {'is' if len(candidates) == 1 else 'are'} not there",
            fix="name it (kubeconfig:), or set KUBECONFIG",
        )
    return files


class _Entries:
    """The named entries of several files, of which the first that has a name counts, as for kubectl."""

    def __init__(self, files: Sequence[tuple[Path, Mapping[str, Any]]]) -> None:
        self._files = files

    def names(self, table: str) -> list[str]:
        return list(dict.fromkeys(name for _, one in self._files for name, _ in _rows(one, table)))

    def named(self, table: str, name: str) -> dict[str, Any] | None:
        """Returns an entry, its files with full paths: they are meant from where the kubeconfig lies."""
        for file, one in self._files:
            for there, value in _rows(one, table):
                if there == name:
                    found = dict(value)
                    for key in _PATHS.get(table, ()):
                        if found.get(key):
                            found[key] = str(file.parent / Path(str(found[key])).expanduser())
                    return found
        return None

    def cluster(self, context: str, chosen: Mapping[str, Any]) -> Entry:
        name = str(chosen.get("cluster") or "")
        entry = self.named("clusters", name)
        if entry is None:
            raise BadInput(
                f"context {context} names the cluster {name!r}, which the kubeconfig does not have"
            )
        if not entry.get("server"):
            raise BadInput(f"cluster {name} of context {context} has no server in the kubeconfig")
        return Entry(f"cluster {name}", entry)

    def user(self, context: str, chosen: Mapping[str, Any]) -> Entry:
        name = str(chosen.get("user") or "")
        if not name:
            return Entry("no user", {})
        entry = self.named("users", name)
        if entry is None:
            raise BadInput(f"context {context} names the user {name!r}, which the kubeconfig does not have")
        if asked := [key for key in _NOT_OURS if entry.get(key)]:
            raise BadInput(
                f"user {name} of context {context} logs in by {', '.join(asked)}, which slicebench cannot",
                fix="use a context with a token, a client certificate or an exec plugin",
            )
        return Entry(f"user {name}", entry)


def _rows(config: Mapping[str, Any], table: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the names and contents of a table: `clusters` has `[{name: a, cluster: {…}}]`."""
    rows = config.get(table) or []
    inner = table.removesuffix("s")
    return [
        (str(row.get("name")), row.get(inner) or {})
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and isinstance(row.get(inner) or {}, dict)
    ]


def _read(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise BadInput(f"the kubeconfig {file} cannot be read: {error.strerror}") from error
    if len(content) > _LONGEST:
        raise BadInput(f"{file} is no kubeconfig: it has more than {_LONGEST >> 20} MiB")
    found = plain_yaml(content.decode("latin-1"))  # letters beyond ASCII are no plain ones
    config = _any_yaml(content, file) if found is None else found
    if not isinstance(config, dict):
        raise BadInput(f"{file} is no kubeconfig: it holds no mapping")
    return config


def _any_yaml(content: bytes, file: Path) -> Any:
    import yaml

    try:
        return yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        problem = (
            getattr(error, "problem", None) or "it is no YAML"
        )  # the rest quotes lines, which hold secrets
        raise BadInput(f"the kubeconfig {file} cannot be understood: {problem}") from error


def _unknown(context: str, known: Sequence[str], files: Sequence[Path]) -> BadInput:
    where = ", ".join(map(str, files))
    there = f"has {', '.join(sorted(known))}" if known else "has none at all"
    near = nearest(context, known)
    fix = f"did you mean {near}?" if near else "name one of these"
    return BadInput(f"there is no context {context!r}: {where} {there}", fix=fix if known else "")


def _trust(context: str, cluster: Entry, user: Entry) -> ssl.SSLContext | None:
    if not cluster.text("server").startswith("https://"):
        return None
    try:
        return trust(cluster, user)
    except (
        OSError,
        ValueError,
        TypeError,
    ) as error:  # ssl.SSLError is an OSError, binascii.Error a ValueError
        raise BadInput(f"the certificates of context {context} cannot be read: {error}") from error


def _tokens(context: str, user: Entry) -> Tokens | None:
    file, token, program = user.text("tokenFile"), user.text("token"), user.program
    if file:
        from tasks.cloud.kubernetes_exec import FileTokens

        return FileTokens(Path(file))
    if token:
        return lambda refused: token
    if program is not None:
        from tasks.cloud.kubernetes_exec import ExecTokens

        return ExecTokens(context, program)
    return None
