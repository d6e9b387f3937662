"""A running Prefect server, spoken to by HTTP alone: importing Prefect's client costs two seconds of CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from flows.attempt import name_of
from flows.server import Server, no_address
from flows.serving.settings import POOLS
from runtime.contract.errors import BadInput, InfrastructureError
from tasks.cloud.waits import waiting

DEPLOYMENT = "benchmark/adhoc"

TERMINAL = frozenset({"COMPLETED", "FAILED", "CRASHED", "CANCELLED"})
"""State types that a flow run never leaves by itself."""

_ERROR = 40

_BUSY = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE)

_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
"""Between asking a busy server and asking again."""

INSIST_S = 180.0
"""How long a server is asked again that has to answer: it may have started a run without being able to say so."""


_OURS = {"work_pools": {"name": {"any_": list(POOLS)}}}
"""Condition: what goes to our work pools. A server may be others' as well."""


@dataclass(frozen=True)
class FlowRunState:
    """A flow run as the server knows it."""

    id: str
    name: str
    state_type: str
    message: str

    @property
    def ended(self) -> bool:
        """Whether it will not change by itself any more."""
        return self.state_type in TERMINAL


class PrefectApi:
    """The few calls that `slicebench` needs. Every one raises InfrastructureError when the server cannot be reached."""

    def __init__(self, server: Server, *, timeout_s: float = 30.0) -> None:
        self.server, self._timeout_s = server, timeout_s
        try:
            self._http = httpx.Client(
                base_url=server.api_url.rstrip("/") + "/",
                headers=server.headers,
                timeout=timeout_s,
                # A proxy for the outside has no business between us and a server on this machine.
                trust_env=not server.is_here,
            )
        except httpx.InvalidURL as error:
            raise no_address(server.api_url, server.source, error) from error

    def __enter__(self) -> PrefectApi:
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.close()

    def check(self) -> None:
        """Asks whether the server is there and lets us in."""
        self._call("POST", "flows/count", {})

    def deployment_id(self, name: str) -> str | None:
        """Returns the id of FLOW/DEPLOYMENT, or None when there is no such deployment."""
        found = self._call("GET", f"deployments/name/{name}", None, missing_ok=True)
        if found is None:
            return None
        if not isinstance(found, dict) or "id" not in found:
            raise Unreachable(_strange(self.server, str(found)))
        return str(found["id"])

    def create_flow_run(self, deployment_id: str, name: str, parameters: Mapping[str, Any]) -> FlowRunState:
        """Starts a run of a deployment. Raises BadInput when the server's schema refuses the parameters.

        A server that does not answer may have started it all the same: it is asked until it says.
        """
        body = {
            "name": name,
            "parameters": parameters,
            # Asked again after an answer was lost, the server gives the flow run that it made the first time.
            "idempotency_key": uuid4().hex,
        }
        try:
            return _flow_run(self._insist(f"deployments/{deployment_id}/create_flow_run", body))
        except Unanswered as error:
            raise Unanswered(f"{error}; whether the run was started, its UI will show") from error

    def flow_run(self, flow_run_id: str) -> FlowRunState:
        """Returns how a flow run is now."""
        return _flow_run(self._call("GET", f"flow_runs/{flow_run_id}", None))

    def cancel(self, flow_run_id: str) -> None:
        """Asks for a flow run to be cancelled; its worker then ends it."""
        state = {"type": "CANCELLING", "name": "Cancelling"}
        self._call("POST", f"flow_runs/{flow_run_id}/set_state", {"state": state})

    def errors(self, flow_run_id: str) -> list[str]:
        """Returns what is logged of a flow run as an error, oldest first: for one that never came to say anything."""
        condition = {"flow_run_id": {"any_": [flow_run_id]}, "level": {"ge_": _ERROR}}
        found = self._call("POST", "logs/filter", {"logs": condition, "sort": "TIMESTAMP_ASC"})
        return [str(line["message"]) for line in found]

    def going(self) -> list[FlowRunState]:
        """Returns our flow runs that a process works on, or is about to; those of others on the server are theirs."""
        states = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}
        found = self._call("POST", "flow_runs/filter", {"flow_runs": {"state": states}} | _OURS)
        return [_flow_run(flow_run) for flow_run in found]

    def has_worker(self, pool: str) -> bool:
        """Whether a worker of a pool has been heard of lately."""
        workers = self._call("POST", f"work_pools/{pool}/workers/filter", {})
        return any(worker["status"] == "ONLINE" for worker in workers)

    def pause_pool(self, pool: str) -> None:
        """Lets a pool's workers take no more runs."""
        self._call("PATCH", f"work_pools/{pool}", {"is_paused": True})

    def schedules(self) -> list[tuple[str, str]]:
        """Returns what of ours starts by itself: the deployment's name, and when. Insists on an answer."""
        found = []
        for deployment in self._insist("deployments/filter", dict(_OURS)):
            for entry in deployment["schedules"]:
                when = entry["schedule"]
                if entry["active"] and "cron" in when:
                    found.append(
                        (deployment["name"], f"cron {when['cron']} ({when.get('timezone') or 'UTC'})")
                    )
        return sorted(found)

    def _insist(self, path: str, body: Any) -> Any:
        """Posts until the server has answered. Raises Unanswered when it does not in `INSIST_S` seconds."""
        deadline = time.monotonic() + INSIST_S
        while True:
            try:
                return self._call("POST", path, body)
            except Unanswered:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSES_S[-1])

    def _call(self, method: str, path: str, body: Any, *, missing_ok: bool = False) -> Any:
        response = self._answer(method, path, body)
        if response.status_code == httpx.codes.NOT_FOUND and missing_ok:
            return None
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise InfrastructureError(
                f"{self.server} does not let us in: "
                "set PREFECT_API_AUTH_STRING to its auth string, or PREFECT_API_KEY"
            )
        if response.status_code in (httpx.codes.CONFLICT, httpx.codes.UNPROCESSABLE_ENTITY):
            raise BadInput(f"the Prefect server refuses the run: {_detail(response)}")
        if response.is_error:
            told = f"{self.server} answers {response.status_code} to {method} {path}: {_detail(response)}"
            raise (Unreachable if response.is_server_error else InfrastructureError)(told)
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise Unreachable(_strange(self.server, response.text)) from error

    def _answer(self, method: str, path: str, body: Any) -> httpx.Response:
        """Returns the server's answer; asks again while it is busy, as SQLite behind it is now and then."""
        for pause_s in (*_PAUSES_S, None):
            try:
                with waiting(f"prefect: {method} {path}", self._timeout_s):
                    response = self._http.request(method, path, json=body)
            except httpx.HTTPError as error:
                raise Unanswered(f"{self.server} does not answer: {error}") from error
            if response.status_code not in _BUSY or pause_s is None:
                break
            time.sleep(pause_s)
        return response


class Unreachable(InfrastructureError):
    """Nothing answers at the server's address, or nothing but errors of its own."""


class Unanswered(Unreachable):
    """No answer came: there is no server, or it did what it was asked and could not say so."""


def _flow_run(found: Mapping[str, Any]) -> FlowRunState:
    state = found.get("state") or {}
    return FlowRunState(
        id=str(found["id"]),
        name=_name(found),
        state_type=str(state.get("type") or "PENDING"),
        message=str(state.get("message") or ""),
    )


def _name(found: Mapping[str, Any]) -> str:
    """Returns what runs where: until a flow run begins, the server has given it a name that says nothing."""
    asked = found.get("parameters") or {}
    if "suite" in asked:
        return name_of(str(asked["suite"]), str(asked.get("target", "local")))
    return str(found["name"])


def _strange(server: Server, answer: str) -> str:
    """Says that this is no answer of Prefect's: it is a proxy's, say, or that of whoever has the port now."""
    return (
        f"{server} answers as Prefect's API does not, with {answer[:100]!r}; "
        "look what is there, and whether its address ends in /api"
    )


def _detail(response: httpx.Response) -> str:
    """Returns what the server says is wrong, in short."""
    try:
        told = response.json()
    except ValueError:
        return response.text[:300]
    return (
        str(told.get("detail") or told.get("exception_message") or told)[:600]
        if isinstance(told, dict)
        else str(told)
    )
