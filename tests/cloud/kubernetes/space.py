"""A client of one namespace for the tests of the stand-in: kinds and names, watches, waits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, until

_KUEUE, _BATCH = "/apis/kueue.x-k8s.io/v1beta2", "/apis/batch/v1"
_ROOTS = {
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "jobs": _BATCH,
    "cronjobs": _BATCH,
    **dict.fromkeys(
        ("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses"), _KUEUE
    ),
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "deployments": "/apis/apps/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
}
_NOWHERE = {"namespaces", "nodes", "clusterqueues", "resourceflavors", "workloadpriorityclasses", "priorityclasses",
            "customresourcedefinitions"}  # fmt: skip

Obj = dict[str, Any]


class Space:
    """Calls the API over HTTP, for the objects of one namespace."""

    def __init__(self, url: str, space: str = "default") -> None:
        """Takes where the API is, and the namespace to work in."""
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S, verify=not url.startswith("http:"))
        self.space = space

    def path(self, kind: str, name: str = "") -> str:
        """Returns the path of a kind, or of an object of it; a path is one already."""
        if kind.startswith("/"):
            return kind
        kind, _, query = kind.partition("?")
        space = "" if kind in _NOWHERE else f"/namespaces/{self.space}"
        whole = f"{_ROOTS.get(kind, '/api/v1')}{space}/{kind}" + (f"/{name}" if name else "")
        return f"{whole}?{query}" if query else whole

    def post(self, kind: str, obj: Obj, code: int = 201, **query: str) -> Obj:
        """Creates an object, or is refused as expected."""
        return told(self.http.post(self.path(kind), json=obj, params=query), code)

    def get(self, kind: str, name: str = "", code: int = 200, **query: str) -> Obj:
        """Gets an object or a list."""
        return told(self.http.get(self.path(kind, name), params=query or None), code)

    def put(self, kind: str, name: str, obj: Obj, code: int = 200) -> Obj:
        """Replaces an object."""
        return told(self.http.put(self.path(kind, name), json=obj), code)

    def patch(
        self, kind: str, name: str, patch: Any, form: str = "merge-patch+json", code: int = 200, **query: str
    ) -> Obj:
        """Patches an object."""
        headers = {"content-type": f"application/{form}"}
        path = self.path(kind, name)
        return told(self.http.patch(path, content=json.dumps(patch), headers=headers, params=query), code)

    def apply(self, kind: str, obj: Obj, manager: str = "us", code: int = 200, **query: str) -> Obj:
        """Applies an object on the server's side."""
        query = {"fieldManager": manager, **query}
        return self.patch(kind, obj["metadata"]["name"], obj, "apply-patch+yaml", code, **query)

    def delete(self, kind: str, name: str, code: int = 200, **query: str) -> Obj:
        """Deletes an object."""
        return told(self.http.delete(self.path(kind, name), params=query), code)

    def log(self, pod: str, code: int = 200, **query: str) -> str:
        """Gets a pod's log."""
        response = self.http.get(f"{self.path('pods', pod)}/log", params=query)
        assert response.status_code == code, response.text
        return response.text if code == 200 else str(response.json()["message"])

    def watch(self, kind: str, **query: str) -> Iterator[tuple[str, Obj]]:
        """Iterates over the events of a watch."""
        with self.http.stream("GET", self.path(kind), params={"watch": "true", **query}) as response:
            assert response.status_code == 200
            for line in response.iter_lines():
                event = json.loads(line)
                yield event["type"], event["object"]

    def names(self, kind: str, **query: str) -> list[str]:
        """Returns the names in a list."""
        return [one["metadata"]["name"] for one in self.get(kind, **query)["items"]]

    def eventually(
        self, kind: str, name: str, holds: Callable[[Obj], object], seconds: float = PATIENCE_S
    ) -> Obj:
        """Waits until an object, or a list where no name is given, is as wanted; returns it."""
        last: list[Obj] = []

        def look() -> object:
            response = self.http.get(self.path(kind, name))
            last[:] = [response.json()]
            return response.status_code == 200 and holds(last[0])

        until(look, seconds)
        return last[0]

    def gone(self, kind: str, name: str = "", seconds: float = PATIENCE_S) -> None:
        """Waits until an object, or all of a kind, is not there any more."""
        if name:
            until(lambda: self.http.get(self.path(kind, name)).status_code == 404, seconds)
        else:
            self.eventually(kind, "", lambda listed: not listed["items"], seconds)

    def ended(self, name: str, seconds: float = PATIENCE_S) -> Obj:
        """Waits until a JobSet has ended."""
        return self.eventually("jobsets", name, lambda js: js.get("status", {}).get("terminalState"), seconds)

    def phases(self, selector: str = "") -> list[str]:
        """Returns the phases of pods."""
        listed = self.get("pods", labelSelector=selector)["items"]
        return [one["status"]["phase"] for one in listed]

    def events(self, name: str = "") -> list[tuple[str, str]]:
        """Returns (reason, message) of the events about an object, or of all."""
        query = {"fieldSelector": f"involvedObject.name={name}"} if name else {}
        return [(one["reason"], one["message"]) for one in self.get("events", **query)["items"]]


def told(response: httpx.Response, code: int) -> Obj:
    """Returns what a response says, if it is the one that is expected."""
    assert response.status_code == code, f"{response.status_code}: {response.text}"
    answer: Obj = response.json()
    return answer
