"""Compute Engine's API in one project, as far as clusters need it: zones, machine types, reservations, placement.

Things made here have no labels; what we make says in its description whose it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.cloud.container_errors import AlreadyExists, ContainerError, NotFound, Throttled, Unavailable
from tasks.cloud.google_calls import is_left_out
from tasks.cloud.google_rest import Document, Rest
from tasks.cloud.labels import LEASE, LEASE_REST, LEDGER
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

ENDPOINT_VARIABLE = "SLICEBENCH_COMPUTE_ENDPOINT"
"""Environment variable with HOST:PORT of a stand-in on this machine: spoken to without TLS or credentials."""

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
        self._rest = Rest("compute.googleapis.com", timing=timing, stand_in=ENDPOINT_VARIABLE)

    @staticmethod
    def is_left_out() -> bool:
        """Whether this process is among stand-ins of which none is for this API: then nothing is asked of it."""
        return is_left_out(ENDPOINT_VARIABLE)

    # What is there

    def zones(self, region: str) -> Sequence[str]:
        """Returns the zones of a region."""
        told = self._rest.get(f"look at the region {region}", self._path(f"regions/{region}"))
        return sorted(str(url).rpartition("/")[2] for url in told.get("zones", ()))

    def quotas(self, region: str) -> Mapping[str, float]:
        """Returns what is left of each quota of a region."""
        told = self._rest.get(f"look at the region {region}", self._path(f"regions/{region}"))
        return {
            str(one["metric"]): float(one.get("limit") or 0) - float(one.get("usage") or 0)
            for one in told.get("quotas", ())
        }

    def has_machine_type(self, zone: str, name: str) -> bool:
        """Whether a zone has machines of a type."""
        return self.machine_type(zone, name) is not None

    def machine_type(self, zone: str, name: str) -> MachineType | None:
        """Returns what machines of a type have; None where the zone has none of them."""
        path = self._path(f"zones/{zone}/machineTypes/{name}")
        try:
            told = self._rest.get(f"look for {name} in {zone}", path)
        except NotFound:
            return None
        return MachineType(int(told.get("guestCpus") or 0), int(told.get("memoryMb") or 0) << 20)

    def has_reservation(self, zone: str, name: str) -> bool:
        """Whether there is a reservation: R, projects/P/reservations/R, or a block within one."""
        parts = name.split("/")
        project = parts[1] if parts[0] == "projects" and len(parts) > 3 else self.project
        short = parts[3] if parts[0] == "projects" and len(parts) > 3 else parts[0]
        path = self._path(f"zones/{zone}/reservations/{short}", project)
        try:
            self._rest.get(f"look for reservation {name}", path)
        except NotFound:
            return False
        return True

    def target_size(self, url: str) -> int:
        """Returns how many machines a group is to have, as it was last told. `url`: as a node pool names it.

        One that is gone has none.
        """
        _, _, path = url.partition("/compute/v1/")
        group, zone = url.rpartition("/")[2], path.split("/")[3]
        try:
            told = self._rest.get(f"look at the machines {group} in {zone}", f"compute/v1/{path}")
        except NotFound:
            return 0
        return int(told.get("targetSize") or 0)

    def policy(self, region: str, name: str) -> Policy:
        """Returns a resource policy by its exact name."""
        path = self._path(f"regions/{region}/resourcePolicies/{name}")
        return _policy(self.project, self._rest.get(f"look at policy {name} in {region}", path))

    def policies(self) -> Sequence[Policy]:
        """Returns the resource policies of all regions. Raises Unavailable when a region did not answer."""
        found: list[Policy] = []
        path = self._path(f"aggregated/resourcePolicies?maxResults={_PAGE}")
        for page in self._rest.pages("list resource policies", path):
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
        doing, folder = f"make workload policy {name} in {region}", self._path(f"regions/{region}")
        for pause in pauses(self._rest.timing, f"compute: {doing}"):
            try:
                operation = self._rest.send("POST", doing, f"{folder}/resourcePolicies", body)
                self._rest.follow(doing, operation, f"{folder}/operations")
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
        path = self._path(f"regions/{region}/resourcePolicies/{name}")
        try:
            self._rest.send("DELETE", f"delete workload policy {name} in {region}", path)
        except NotFound:
            return

    def _there(self, region: str, name: str) -> Policy | None:
        try:
            return self.policy(region, name)
        except NotFound:
            return None

    def _path(self, rest: str, project: str = "") -> str:
        return f"compute/v1/projects/{project or self.project}/{rest}"


def written(labels: Mapping[str, str]) -> str:
    """Returns labels as a description, for kinds that have no labels."""
    return "made by slicebench: " + " ".join(f"{key}={value}" for key, value in sorted(labels.items()))


def read(description: str) -> Mapping[str, str] | None:
    """Returns the labels that a description holds; None: slicebench did not write it."""
    if not description.startswith("made by slicebench: "):
        return None
    words = description.partition(": ")[2].split()
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _policy(project: str, told: Document) -> Policy:
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
