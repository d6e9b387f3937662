"""A container registry that keeps what it is given, asks who calls, and fails as told: for tests and by hand."""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cloud.registry_store import Store, digest_of

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_PLACE = re.compile(r"/v2/(?P<name>.+?)/(?P<kind>manifests|blobs|tags)/(?P<rest>.*)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else what follows the headers waits for 40 ms
    store: Store

    def do_HEAD(self) -> None:
        self._serve()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.fault = self.store.fault(f"{self.command} {url.path}")
        if self.fault and self.fault.how.isdigit():
            self._body()
            more = {"Retry-After": self.fault.retry_after} if self.fault.retry_after else {}
            return self._refuse(
                int(self.fault.how), "TOOMANYREQUESTS" if self.fault.how == "429" else "UNKNOWN", more
            )
        if self.fault and self.fault.how == "kill_before":
            return self._kill()
        if url.path == "/token":
            return self._token(parse_qs(url.query).get("scope", []))
        if url.path in ("/v2/", "/v2"):
            return self._answer(200, b"{}")
        place = _PLACE.fullmatch(url.path)
        if place is None:
            return self._refuse(404, "NAME_UNKNOWN")
        name, kind, rest = place["name"], place["kind"], place["rest"]
        if not self._let_in(name):
            self._body()
            realm = self.store.realm or f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="stand-in",scope="repository:{name}:pull"'
            return self._refuse(401, "UNAUTHORIZED", {"WWW-Authenticate": challenge})
        if kind == "tags":
            return self._tags(name)
        if kind == "manifests":
            return self._manifests(name, rest)
        if rest.startswith("uploads/"):
            return self._uploads(name, rest.removeprefix("uploads/"))
        return self._blobs(name, rest)

    # ------------------------------------------------------------------ who calls

    def _let_in(self, name: str) -> bool:
        if self.store.login is None:
            return True
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        scopes = base64.b64decode(given).decode() if given else ""
        wanted = "pull" if self.command in ("GET", "HEAD") and "uploads" not in self.path else "push"
        return any(
            scope.startswith(f"repository:{name}:") and wanted in scope.rpartition(":")[2].split(",")
            for scope in scopes.split()
        )

    def _token(self, scopes: list[str]) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        known = base64.b64decode(given).decode() == self.store.login
        if given and not known:
            return self._refuse(401, "UNAUTHORIZED")
        granted = scopes if known else [re.sub(r",?push", "", scope) for scope in scopes]
        self.store.tokens.append(" ".join(granted))
        token = base64.b64encode(" ".join(granted).encode()).decode()
        return self._answer(200, json.dumps({"token": token}).encode(), {"Content-Type": "application/json"})

    # ------------------------------------------------------------------ what is kept

    def _tags(self, name: str) -> None:
        if name not in self.store.repositories:
            return self._refuse(404, "NAME_UNKNOWN")
        content = {"name": name, "tags": sorted(self.store.repositories[name].tags) or None}
        return self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _manifests(self, name: str, reference: str) -> None:
        if self.command == "PUT":
            return self._put_manifest(name, reference, self._body())
        repository = self.store.repositories.get(name)
        digest = repository.tags.get(reference, reference) if repository else ""
        if repository is None or digest not in repository.manifests:
            return self._refuse(404, "MANIFEST_UNKNOWN")
        media_type, content = repository.manifests[digest]
        return self._answer(200, content, {"Content-Type": media_type, "Docker-Content-Digest": digest})

    def _put_manifest(self, name: str, reference: str, content: bytes) -> None:
        repository, told = self.store.repository(name), json.loads(content)
        media_type = self.headers["Content-Type"]
        if media_type in _INDEXES:
            missing = [
                one["digest"] for one in told["manifests"] if one["digest"] not in repository.manifests
            ]
        else:
            wanted = [told["config"], *(layer for layer in told["layers"] if not layer.get("urls"))]
            missing = [
                one["digest"]
                for one in wanted
                if len(repository.blobs.get(one["digest"], b"")) != one["size"]
            ]
        if missing or told.get("mediaType", media_type) != media_type:
            return self._refuse(400, "MANIFEST_BLOB_UNKNOWN")
        digest = digest_of(content)
        repository.manifests[digest] = (media_type, content)
        if not reference.startswith("sha256:"):
            repository.tags[reference] = digest
        elif reference != digest:
            return self._refuse(400, "DIGEST_INVALID")
        return self._answer(
            201, b"", {"Docker-Content-Digest": digest, "Location": f"/v2/{name}/manifests/{digest}"}
        )

    def _blobs(self, name: str, digest: str) -> None:
        repository = self.store.repositories.get(name)
        if repository is None or digest not in repository.blobs:
            return self._refuse(404, "BLOB_UNKNOWN")
        content, begin = (
            repository.blobs[digest],
            re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")),
        )
        if begin is None:
            return self._answer(200, content, {"Docker-Content-Digest": digest})
        first = int(begin[1])
        self.store.ranges.append(begin[0])
        told = f"bytes {first}-{len(content) - 1}/{len(content)}"
        return self._answer(206, content[first:], {"Content-Range": told})

    def _uploads(self, name: str, session: str) -> None:
        if self.command == "POST":
            self._body()
            source, digest = self.query.get("from", ""), self.query.get("mount", "")
            there = self.store.repositories.get(source)
            if self.store.mounts and there and digest in there.blobs:
                self.store.repository(name).blobs[digest] = there.blobs[digest]
                return self._answer(201, b"", {"Location": f"/v2/{name}/blobs/{digest}"})
            session = uuid.uuid4().hex
            self.store.uploads[session] = bytearray()
            return self._told(202, name, session)
        if session not in self.store.uploads:
            self._body()
            return self._refuse(404, "BLOB_UPLOAD_UNKNOWN")
        if self.command == "GET":
            return self._told(204, name, session)
        if self.command == "DELETE":
            del self.store.uploads[session]
            return self._answer(204, b"")
        return self._more(name, session)

    def _more(self, name: str, session: str) -> None:
        upload = self.store.uploads[session]
        begin = re.fullmatch(r"(\d+)-(\d+)", self.headers.get("Content-Range", ""))
        if begin and int(begin[1]) != len(upload):
            self._body()
            return self._refuse(416, "BLOB_UPLOAD_INVALID")
        for piece in self._pieces():
            upload += piece
        if self.command == "PATCH":
            return self._told(202, name, session)
        digest = self.query.get("digest", "")
        if digest_of(bytes(upload)) != digest:
            return self._refuse(400, "DIGEST_INVALID")
        self.store.repository(name).blobs[digest] = bytes(upload)
        del self.store.uploads[session]
        return self._answer(201, b"", {"Location": f"/v2/{name}/blobs/{digest}"})

    def _told(self, status: int, name: str, session: str) -> None:
        last = max(len(self.store.uploads[session]) - 1, 0)
        where = f"/v2/{name}/blobs/uploads/{session}?_state=x"
        return self._answer(status, b"", {"Location": where, "Range": f"0-{last}"})

    # ------------------------------------------------------------------ bytes

    def _body(self) -> bytes:
        return b"".join(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        left = int(self.headers.get("Content-Length") or 0)
        cut = self.fault.after if self.fault and self.fault.how == "cut" else None
        while left:
            piece = self.rfile.read(min(left, 1 << 16, *(() if cut is None else (max(cut, 1),))))
            if not piece:
                return
            left -= len(piece)
            yield piece
            if cut is not None:
                cut -= len(piece)
                if cut <= 0:
                    self._hang_up()
                    return

    def _kill(self) -> None:
        os.kill(self.store.victim.get(timeout=60), signal.SIGKILL)
        self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # who was killed has hung up already
            self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, status: int, code: str, more: Mapping[str, str] | None = None) -> None:
        content = json.dumps({"errors": [{"code": code, "message": code.replace("_", " ").lower()}]}).encode()
        self._answer(status, content, {"Content-Type": "application/json", **(more or {})})

    def _answer(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        if self.fault and self.fault.how == "kill_after":
            return self._kill()
        if self.fault and self.fault.how in ("lost", "cut"):
            return self._hang_up()
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if self.fault and self.fault.how == "short":
            self.wfile.write(content[: self.fault.after])
            self.wfile.flush()
            return self._hang_up()
        self.wfile.write(content)
        return None


@contextmanager
def serve_registry(store: Store, port: int = 0) -> Iterator[str]:
    """Serves a store on loopback; yields HOST:PORT."""
    handler = type("Handler", (_Handler,), {"store": store})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cloud registry", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--login", metavar="USER:PASSWORD", help="ask for it before anything is pushed")
    asked = parser.parse_args(argv)
    with serve_registry(Store(login=asked.login), asked.port) as address:
        print(address, flush=True)
        print("serving; end with Ctrl-C", file=sys.stderr)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
