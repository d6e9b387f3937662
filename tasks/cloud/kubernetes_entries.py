"""What a kubeconfig says of a cluster and of a user: read, checked, and what TLS makes of their certificates."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.contract.errors import BadInput

Certificate = tuple[str, str]
"""Where it lies, and what it is, in base64: the latter counts where both are said, as for kubectl."""


@dataclass(frozen=True)
class Program:
    """Which program logs in. `version` is that of the questions and answers; `hint` tells how to install it."""

    version: str
    command: str
    words: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    hint: str


class Entry:
    """One entry of a kubeconfig, whose values are of the types that Kubernetes gives them. Raises BadInput elsewise."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        self._what, self._values = what, values

    def text(self, key: str) -> str:
        """Returns a text; empty where none stands there."""
        return str(self._of(key, str, "text") or "")

    def certificate(self, key: str) -> Certificate:
        """Returns a certificate or a key of one, as a file or as data."""
        return self.text(key), self.text(f"{key}-data")

    @property
    def trusts_anybody(self) -> bool:
        """Whether the server's certificate does not matter."""
        return bool(self._of("insecure-skip-tls-verify", bool, "true or false"))

    @property
    def program(self) -> Program | None:
        """The program that logs in, where one does."""
        found = self._of("exec", dict, "a mapping")
        if not found:
            return None
        said = Entry(f"{self._what}: exec", found)
        variables = [Entry(said._what, one) for one in said._list("env", dict)]
        return Program(
            version=said._needed("apiVersion"),
            command=said._needed("command"),
            words=said._list("args", str),
            env={one._needed("name"): one._needed("value") for one in variables},
            hint=said.text("installHint"),
        )

    def _needed(self, key: str) -> str:
        if self._values.get(key) is None:
            raise self._wrong(f"{key} is missing")
        return self.text(key)

    def _list(self, key: str, kind: type) -> list[Any]:
        found: list[Any] = self._of(key, list, "a list") or []
        if not all(isinstance(one, kind) for one in found):
            raise self._wrong(f"{key} holds something else than {'text' if kind is str else 'mappings'}")
        return found

    def _of(self, key: str, kind: type, words: str) -> Any:
        value = self._values.get(key)
        if value is not None and not isinstance(value, kind):
            raise self._wrong(f"{key} is not {words}")  # its value may be a secret
        return value

    def _wrong(self, why: str) -> BadInput:
        return BadInput(f"{self._what} of the kubeconfig cannot be understood: {why}")


def trust(cluster: Entry, user: Entry) -> ssl.SSLContext:
    """Returns whom a cluster's server is trusted by, with the user's certificate where it has one.

    Raises OSError and ValueError for certificates that cannot be read.
    """
    file, data = cluster.certificate("certificate-authority")
    if data:
        context = ssl.create_default_context(cadata=base64.b64decode(data).decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=file or None)
    if cluster.trusts_anybody and not (file or data):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _show(context, user.certificate("client-certificate"), user.certificate("client-key"))
    return context


def _show(context: ssl.SSLContext, certificate: Certificate, key: Certificate) -> None:
    """Lets a context show a certificate; ssl takes it and its key from files only."""
    if not any(certificate):
        return
    from contextlib import ExitStack
    from tempfile import NamedTemporaryFile

    with ExitStack() as files:
        names = []
        for name, data in (certificate, key):
            if data:
                made = files.enter_context(NamedTemporaryFile())
                made.write(base64.b64decode(data))
                made.flush()
                name = made.name
            names.append(name)
        context.load_cert_chain(names[0], names[1] or None)
