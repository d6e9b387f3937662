"""Tokens that change: read from a file that somebody renews, or asked of the program that a kubeconfig names."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.command import run_command
from tasks.cloud.kubernetes_entries import Program
from tasks.cloud.kubernetes_errors import PermissionDenied, shortened

_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_PROGRAM_S = 60.0
_EARLY_S = 30.0
"""Before a token expires another one is asked for, so that none expires on its way."""


class FileTokens:
    """The token in a file, which is read each time: whoever renews it just writes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, refused: bool) -> str:
        """Raises PermissionDenied when the file cannot be read."""
        try:
            return self._file.read_text().strip()
        except OSError as error:
            raise PermissionDenied(f"the token {self._file} cannot be read: {error.strerror}") from error


class ExecTokens:
    """The tokens that a program prints (gke-gcloud-auth-plugin, aws eks get-token …), kept until they expire."""

    def __init__(self, context: str, program: Program) -> None:
        if program.version not in _VERSIONS:
            raise BadInput(
                f"context {context} logs in through {program.command} in version {program.version}, "
                f"which is not known: {', '.join(_VERSIONS)} are"
            )
        self._context, self._program = context, program
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def __call__(self, refused: bool) -> str:
        """Raises PermissionDenied when the program fails, or prints no token."""
        with self._lock:
            if refused or not self._token or time.time() > self._until:
                self._token, self._until = self._ask()
            return self._token

    def _ask(self) -> tuple[str, float]:
        program = self._program
        info = {"apiVersion": program.version, "kind": "ExecCredential", "spec": {"interactive": False}}
        environment = {
            **os.environ,  # its own login lies there, wherever that is
            **program.env,
            "KUBERNETES_EXEC_INFO": json.dumps(info),
        }
        argv = [program.command, *program.words]
        try:
            finished = run_command(argv, env=environment, timeout_s=_PROGRAM_S, told="a token")
        except InfrastructureError as error:
            hint = f"; {shortened(program.hint)}" if program.hint else ""
            raise PermissionDenied(
                f"context {self._context} logs in through a program: {error}{hint}"
            ) from error
        if finished.code:
            raise PermissionDenied(
                f"{program.command}, through which context {self._context} logs in, ended with code {finished.code}: "
                f"{shortened(finished.errors) or 'it said nothing'}"
            )
        return self._token_in(finished.output)

    def _token_in(self, output: bytes) -> tuple[str, float]:
        try:
            answer: Any = json.loads(output)
        except ValueError:
            answer = None
        status: Mapping[str, Any] = (answer.get("status") if isinstance(answer, dict) else None) or {}
        if not status.get("token"):
            raise PermissionDenied(
                f"{self._program.command}, through which context {self._context} logs in, printed no token"
                + (
                    ": slicebench takes no client certificates from it"
                    if "clientCertificateData" in status
                    else ""
                )
            )
        try:
            until = datetime.fromisoformat(str(status["expirationTimestamp"])).timestamp() - _EARLY_S
        except (KeyError, ValueError):
            until = float("inf")
        return str(status["token"]), until
