"""A plain client for the tests of the stand-in: paths, watches, waits."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, until

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/api/v1/namespaces/default/events"

Obj = dict[str, Any]


class Plain:
    """Calls the API over HTTP."""

    def __init__(self, url: str, *, verify: ssl.SSLContext | bool = True, token: str = "") -> None:
        """Takes where the API is, and whom it is trusted by."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        verify = verify if url.startswith("https:") else False  # whom to trust takes a while to load
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S, verify=verify, headers=headers)

    def post(self, path: str, obj: Obj, code: int = 201, **query: str) -> Obj:
        """Creates an object, or is refused as expected."""
        return self._told(self.http.post(path, json=obj, params=query), code)

    def get(self, path: str, code: int = 200, **query: str) -> Obj:
        """Gets an object or a list."""
        return self._told(self.http.get(path, params=query), code)

    def put(self, path: str, obj: Obj, code: int = 200) -> Obj:
        """Replaces an object."""
        return self._told(self.http.put(path, json=obj), code)

    def patch(
        self, path: str, patch: Any, kind: str = "merge-patch+json", code: int = 200, **query: str
    ) -> Obj:
        """Patches an object."""
        headers = {"content-type": f"application/{kind}"}
        return self._told(
            self.http.patch(path, content=json.dumps(patch), headers=headers, params=query), code
        )

    def delete(self, path: str, code: int = 200, **query: str) -> Obj:
        """Deletes an object."""
        return self._told(self.http.delete(path, params=query), code)

    def _told(self, response: httpx.Response, code: int) -> Obj:
        assert response.status_code == code, f"{response.status_code}: {response.text}"
        told: Obj = response.json()
        return told

    def text(self, path: str, code: int = 200, **query: str) -> str:
        """Gets a text."""
        response = self.http.get(path, params=query)
        assert response.status_code == code, response.text
        return response.text

    def watch(self, path: str, **query: str) -> Iterator[tuple[str, Obj]]:
        """Iterates over the events of a watch."""
        with self.http.stream("GET", path, params={"watch": "true", **query}) as response:
            assert response.status_code == 200
            for line in response.iter_lines():
                told = json.loads(line)
                yield told["type"], told["object"]

    def names(self, path: str, **query: str) -> list[str]:
        """Returns the names in a list."""
        return [one["metadata"]["name"] for one in self.get(path, **query)["items"]]

    def eventually(self, path: str, holds: Callable[[Obj], object], seconds: float = PATIENCE_S) -> Obj:
        """Waits until an object (or a list) is as wanted; returns it."""
        last: list[Obj] = []

        def look() -> object:
            response = self.http.get(path)
            last[:] = [response.json()]
            return response.status_code == 200 and holds(last[0])

        until(look, seconds)
        return last[0]

    def ended(self, name: str, seconds: float = PATIENCE_S) -> Obj:
        """Waits until a JobSet has ended."""
        return self.eventually(
            f"{JOBSETS}/{name}", lambda js: js.get("status", {}).get("terminalState"), seconds
        )
