"""Reads and makes objects of a bucket by one request each, with the standard library.

gcsfs knows all that there is to it, but takes longer to import than all else that a pod does before it measures. So
what is not plain (a login by a file, a failure that may pass) is left to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

_GOOGLE = "https://storage.googleapis.com"
_METADATA = "169.254.169.254"  # by a name, clusters elsewhere may take their time to say no
_TOKEN = "computeMetadata/v1/instance/service-accounts/default/token"
_ANSWER_S, _TOKEN_S = 30.0, 3.0
_EARLY_S = 60.0
"""Before a token expires another one is asked for, so that none expires on its way."""


class NotPlainError(Exception):
    """It is gcsfs's to do."""


class Bucket:
    """Objects below gs://BUCKET/PREFIX, as the machine's own service account: of a pod on GKE it is the pod's."""

    def __init__(self, uri: str, environ: Mapping[str, str] = os.environ, google: str = _GOOGLE) -> None:
        self._bucket, _, prefix = uri.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._environ = environ
        self._emulator = environ.get("STORAGE_EMULATOR_HOST", "")
        self._server = self._emulator.rstrip("/") or google
        self._token, self._until = "", 0.0

    def read(self, name: str) -> bytes | None:
        """Returns what an object holds, or None when it is not there. Raises NotPlainError."""
        place = f"storage/v1/b/{self._bucket}/o/{quote(self._prefix + name, safe='')}?alt=media"
        try:
            headers = {} if self._emulator else {"Authorization": f"Bearer {self._login()}"}
            request = urllib.request.Request(f"{self._server}/{place}", headers=headers)
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise NotPlainError from error
        except (OSError, ValueError) as error:  # a URLError is an OSError
            raise NotPlainError from error
        return content

    def create(self, name: str, content: bytes) -> bool:
        """Makes an object; False: it is there, or may be since just now. Raises NotPlainError."""
        place = f"upload/storage/v1/b/{self._bucket}/o?uploadType=multipart&ifGenerationMatch=0"
        about = {"Content-Type": "application/json"}, json.dumps({"name": self._prefix + name}).encode()
        between, body = _multipart(about, ({"Content-Type": "application/octet-stream"}, content))
        headers = {"Content-Type": f"multipart/related; boundary={between}"}
        try:
            if not self._emulator:
                headers["Authorization"] = f"Bearer {self._login()}"
            request = urllib.request.Request(f"{self._server}/{place}", body, headers, method="POST")
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 412:
                return False
            raise NotPlainError from error
        except (OSError, ValueError) as error:
            raise NotPlainError from error
        return True

    def _login(self) -> str:
        """Returns the token that the machine's metadata server gives to whom nothing else was given."""
        if time.time() > self._until:
            if self._login_by_file():
                raise NotPlainError
            host = self._environ.get("GCE_METADATA_HOST", _METADATA)
            asked = urllib.request.Request(f"http://{host}/{_TOKEN}", headers={"Metadata-Flavor": "Google"})
            straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with straight.open(asked, timeout=_TOKEN_S) as answer:
                told = json.load(answer)
            try:
                self._token, self._until = (
                    str(told["access_token"]),
                    time.time() + told["expires_in"] - _EARLY_S,
                )
            except (KeyError, TypeError) as error:
                raise NotPlainError from error
        return self._token

    def _login_by_file(self) -> bool:
        own = self._environ.get("CLOUDSDK_CONFIG") or Path(self._environ.get("HOME", "/")) / ".config/gcloud"
        known = Path(own) / "application_default_credentials.json"
        return bool(self._environ.get("GOOGLE_APPLICATION_CREDENTIALS")) or known.exists()


def _multipart(*parts: tuple[Mapping[str, str], bytes]) -> tuple[str, bytes]:
    """Returns what stands between the parts of a body, in which it does not come, and the body."""
    between, body = hashlib.sha256(b"".join(content for _, content in parts)).hexdigest(), b""
    for headers, content in parts:
        lines = [f"--{between}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        body += "\r\n".join(lines).encode() + content + b"\r\n"
    return between, body + f"--{between}--\r\n".encode()
