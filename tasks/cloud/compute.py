"""Compute Engine's API in one project, as far as clusters need it: zones, machine types, reservations, placement.

There is no client library in this: Google's own is generated for REST alone and knows ten thousand messages, of which
four would be used. Things made here have no labels; what we make says in its description whose it is.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.cloud.calls import UNANSWERED, calling
from tasks.cloud.container_errors import (
    AlreadyExists,
    ContainerError,
    Nobody,
    NotFound,
    Throttled,
    Unavailable,
    error_for,
    error_of_operation,
)
from tasks.cloud.google_calls import is_left_out, refuse_far_endpoint
from tasks.cloud.labels import LEASE, LEASE_REST, LEDGER
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

if TYPE_CHECKING:
    import httpx

    from tasks.cloud.kubernetes_access import GoogleTokens

ENDPOINT_VARIABLE = "SLICEBENCH_COMPUTE_ENDPOINT"
"""Environment variable with HOST:PORT of a stand-in on this machine: spoken to without TLS or credentials."""

_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 412: 9, 429: 8, 499: 1, 501: 12}
"""HTTP status → google.rpc.Code; others from 500 on may pass."""
_PAGE = 500


@dataclass(frozen=True)
class Policy:
    """A resource policy of a region. `labels` is what its description says, where slicebench made it."""

    project: str
    region: str
    name: str
    uid: str
    topology: str = ""
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True)
class MachineType:
    """What a machine has: virtual processors, and bytes of memory. 0: not told."""

    cpus: int
    memory: int


class Compute:
    """The API of one project. Methods raise ContainerError; NotFound only when the service says that there is none."""

    def __init__(self, project: str, *, timing: Timing | None = None) -> None:
        self.project = project
        self._timing = timing or Timing()

    @staticmethod
    def is_left_out() -> bool:
        """Whether this process is among stand-ins of which none is for this API: then nothing is asked of it."""
        return is_left_out(ENDPOINT_VARIABLE)

    # What is there

    def zones(self, region: str) -> Sequence[str]:
        """Returns the zones of a region."""
        told = self._get(f"look at the region {region}", f"regions/{region}")
        return sorted(str(url).rpartition("/")[2] for url in told.get("zones", ()))

    def has_machine_type(self, zone: str, name: str) -> bool:
        """Whether a zone has machines of a type."""
        return self.machine_type(zone, name) is not None

    def machine_type(self, zone: str, name: str) -> MachineType | None:
        """Returns what machines of a type have; None where the zone has none of them."""
        try:
            told = self._get(f"look for {name} in {zone}", f"zones/{zone}/machineTypes/{name}")
        except NotFound:
            return None
        return MachineType(int(told.get("guestCpus") or 0), int(told.get("memoryMb") or 0) << 20)

    def has_reservation(self, zone: str, name: str) -> bool:
        """Whether there is a reservation: R, projects/P/reservations/R, or a block within one."""
        parts = name.split("/")
        project = parts[1] if parts[0] == "projects" and len(parts) > 3 else self.project
        short = parts[3] if parts[0] == "projects" and len(parts) > 3 else parts[0]
        try:
            self._get(f"look for reservation {name}", f"zones/{zone}/reservations/{short}", project=project)
        except NotFound:
            return False
        return True

    def policy(self, region: str, name: str) -> Policy:
        """Returns a resource policy by its exact name."""
        path = f"regions/{region}/resourcePolicies/{name}"
        return _policy(self.project, self._get(f"look at policy {name} in {region}", path))

    def policies(self) -> Sequence[Policy]:
        """Returns the resource policies of all regions. Raises Unavailable when a region did not answer."""
        found: list[Policy] = []
        for page in self._pages("list resource policies", "aggregated/resourcePolicies"):
            if silent := page.get("unreachables"):
                raise Unavailable(f"cannot list resource policies: {', '.join(silent)} did not answer")
            for part in page.get("items", {}).values():
                found += (_policy(self.project, one) for one in part.get("resourcePolicies", ()))
        return found

    # What is made and unmade

    def create_policy(self, region: str, name: str, topology: str, labels: Mapping[str, str]) -> Policy:
        """Makes a workload policy that keeps the hosts of a slice of this topology near each other.

        One of the same lease is returned as it is. Raises AlreadyExists when the name is somebody else's.
        """
        body = {
            "name": name,
            "description": written(labels),
            "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": topology},
        }
        doing, folder = f"make workload policy {name} in {region}", f"regions/{region}"
        for pause in pauses(self._timing, f"compute: {doing}"):
            try:
                operation = self._send("POST", doing, f"{folder}/resourcePolicies", body)
                self._follow(doing, folder, operation)
            except (AlreadyExists, Unavailable) as error:
                there = None if isinstance(error, Throttled) else self._there(region, name)
                if there is not None:
                    return _ours(there, labels, error)
                if pause is None:
                    raise
                tried(str(error))
                time.sleep(pause)
            else:
                return self.policy(region, name)
        raise AssertionError("the last pause is None")

    def delete_policy(self, region: str, name: str) -> None:
        """Asks a policy to go, without waiting. One that is gone is no error; one that is in use is refused."""
        doing = f"delete workload policy {name} in {region}"
        try:
            self._send("DELETE", doing, f"regions/{region}/resourcePolicies/{name}")
        except NotFound:
            return

    def _there(self, region: str, name: str) -> Policy | None:
        try:
            return self.policy(region, name)
        except NotFound:
            return None

    # How calls are made

    def _follow(self, doing: str, folder: str, operation: Mapping[str, Any]) -> None:
        """Waits for the end of an operation. Raises the error that it ended with."""
        deadline = time.monotonic() + self._timing.total_s
        while operation.get("status") != "DONE":
            if time.monotonic() >= deadline:
                raise Unavailable(f"cannot {doing}: it takes more than {self._timing.total_s:.0f} s")
            time.sleep(self._timing.first_pause_s)
            operation = self._get(f"wait to {doing}", f"{folder}/operations/{operation['name']}")
        if errors := operation.get("error", {}).get("errors"):
            code = _CODES.get(int(operation.get("httpErrorStatusCode", 0)), 3)
            raise error_of_operation(code, str(errors[0].get("message", errors[0])), doing, "compute")

    def _pages(self, doing: str, path: str) -> Iterator[Mapping[str, Any]]:
        token = ""
        while True:
            page = self._get(doing, f"{path}?maxResults={_PAGE}{f'&pageToken={token}' if token else ''}")
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return

    def _get(self, doing: str, path: str, project: str = "") -> Mapping[str, Any]:
        """Asks, as often as it takes."""
        for pause in pauses(self._timing, f"compute: {doing}"):
            try:
                return self._send("GET", doing, path, project=project)
            except Unavailable as error:
                if pause is None:
                    raise
                tried(str(error))
                time.sleep(pause)
        raise AssertionError("the last pause is None")

    def _send(
        self, method: str, doing: str, path: str, body: Mapping[str, Any] | None = None, project: str = ""
    ) -> Mapping[str, Any]:
        import httpx

        server, client, tokens = _client(os.environ.get(ENDPOINT_VARIABLE) or None, os.getpid())
        url = f"{server}/compute/v1/projects/{project or self.project}/{path}"
        try:
            with calling("compute", doing, 2 * self._timing.try_s) as call:
                response = self._once(client, tokens, method, url, body)
                call.result = str(response.status_code)
        except httpx.HTTPError as error:
            words = str(error) or type(error).__name__
            raise Unavailable(f"cannot {doing}: {words} ({server}); {UNANSWERED}") from error
        if response.is_error:
            raise _failure(response, doing)
        told: Mapping[str, Any] = response.json()
        return told

    def _once(
        self,
        client: httpx.Client,
        tokens: GoogleTokens | None,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
    ) -> httpx.Response:
        """Sends a request; once more with another token when the first is not taken."""
        for refused in (False, True):
            headers = {"Authorization": f"Bearer {_token(tokens, refused)}"} if tokens is not None else {}
            response = client.request(method, url, json=body, headers=headers, timeout=self._timing.try_s)
            if response.status_code != 401 or tokens is None:
                break
        return response


def written(labels: Mapping[str, str]) -> str:
    """Returns labels as a description, for kinds that have no labels."""
    return "made by slicebench: " + " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def read(description: str) -> Mapping[str, str] | None:
    """Returns the labels that a description holds; None: slicebench did not write it."""
    if not description.startswith("made by slicebench: "):
        return None
    words = description.partition(": ")[2].split()
    return {key: value for key, _, value in (word.partition("=") for word in words)}


@functools.cache
def _client(endpoint: str | None, pid: int) -> tuple[str, httpx.Client, GoogleTokens | None]:
    import httpx

    if endpoint:
        refuse_far_endpoint(ENDPOINT_VARIABLE, endpoint)
        return f"http://{endpoint}", httpx.Client(trust_env=False), None  # no proxy between us and ourselves
    from tasks.cloud.kubernetes_access import GoogleTokens

    agent = {"User-Agent": "slicebench"}
    return "https://compute.googleapis.com", httpx.Client(headers=agent), GoogleTokens()


def _token(tokens: GoogleTokens, refused: bool) -> str:
    from tasks.cloud.kubernetes_errors import PermissionDenied as NotLoggedIn

    try:
        return tokens(refused)
    except NotLoggedIn as error:
        raise Nobody(str(error)) from error


def _failure(response: httpx.Response, doing: str) -> ContainerError:
    try:
        message = str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text[:300] or response.reason_phrase
    code = _CODES.get(response.status_code, 14 if response.status_code >= 500 else 3)
    return error_for(code, message, doing, "compute")


def _policy(project: str, told: Mapping[str, Any]) -> Policy:
    return Policy(
        project,
        str(told.get("region", "")).rpartition("/")[2],
        str(told["name"]),
        str(told["id"]),
        str(told.get("workloadPolicy", {}).get("acceleratorTopology", "")),
        read(str(told.get("description", ""))),
    )


def _ours(there: Policy, labels: Mapping[str, str], error: ContainerError) -> Policy:
    """Returns what is there if it is what we asked for, judged by lease and ledger; raises AlreadyExists else."""
    has = there.labels or {}
    if any(has.get(key) != labels.get(key) for key in (LEASE, LEASE_REST, LEDGER)):
        raise AlreadyExists(f"policy {there.name} in {there.region} was made by somebody else") from error
    return there
