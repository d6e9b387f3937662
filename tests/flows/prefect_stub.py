"""A stand-in for a Prefect server's REST API: keeps flow runs, notes every call, and moves states when told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class PrefectStub:
    """Answers on `url`. `on_start` and `on_cancel` are called with a flow run when it is created or cancelled.

    So many times as `lost_answers` says, what is asked for (a flow run, the deployments) is done and the connection
    cut before that is said. `away` is asked at every call whether the server is away: then the connection is cut, and
    nothing done. `raw` is answered instead of JSON.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.authorizations: set[str | None] = set()
        self.deployments = {"benchmark/adhoc": "d1"}
        self.auth: str | None = None
        self.flow_run: dict[str, Any] = {}
        self.errors: list[str] = []
        self.raw: bytes | None = None
        self.refuse: tuple[int, Any] | None = None
        self.refusals = 1_000_000
        self.lost_answers = 0
        self.away: Callable[[], bool] = lambda: False
        self.on_start: Callable[[dict[str, Any]], None] = lambda flow_run: None
        self.on_cancel: Callable[[dict[str, Any]], None] = lambda flow_run: self.end("CANCELLED")
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body go together: apart, the second waits for 40 ms

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            do_PATCH = do_POST

            def _answer(self, body: Any) -> None:
                if stub.away():
                    self.close_connection = True
                    return
                if self.path.endswith(("/create_flow_run", "deployments/filter")) and stub.lost_answers:
                    stub.lost_answers -= 1
                    stub.answer(self.command, self.path.removeprefix("/api/"), body)
                    self.close_connection = True
                    return
                stub.authorizations.add(self.headers.get("Authorization"))
                if stub.auth and self.headers.get("Authorization") != stub.auth:
                    status, answer = 401, {"exception_message": "Unauthorized"}
                else:
                    status, answer = stub.answer(self.command, self.path.removeprefix("/api/"), body)
                content = stub.raw or json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api"
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def end(self, state: str, message: str = "") -> None:
        """Brings the flow run into a state."""
        self.flow_run["state"] = {"type": state, "name": state.capitalize(), "message": message}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        self.calls.append((method, path, body))
        if path.startswith("deployments/name/"):
            found = self.deployments.get(path.removeprefix("deployments/name/"))
            return (200, {"id": found}) if found else (404, {"detail": "Deployment not found"})
        if path.endswith("/create_flow_run"):
            if self.refuse and self.refusals > 0:
                self.refusals -= 1
                return self.refuse
            self.flow_run = {"id": "f1", "name": "stub-run", "parameters": body["parameters"]}
            self.end("SCHEDULED")
            self.on_start(self.flow_run)
            return 201, self.flow_run
        if path == "flow_runs/f1/set_state":
            self.on_cancel(self.flow_run)
            return 201, {"status": "ACCEPT"}
        if path == "flow_runs/f1":
            return 200, self.flow_run
        if path == "flow_runs/filter":
            return 200, []
        if path == "deployments/filter":
            cron = {"schedule": {"cron": "0 2 * * *", "timezone": None}, "active": True}
            return 200, [{"name": "nightly", "schedules": [cron]}, {"name": "adhoc", "schedules": []}]
        if path == "logs/filter":
            return 200, [{"message": line} for line in self.errors]
        return 404, {"detail": f"the stand-in knows no {path}"}
