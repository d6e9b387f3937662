"""For a bench: an API server with one JobSet of a thousand pods that log, quick enough to leave time to who follows.

    python -m tests.bench.many_pods PODS LINES_PER_SECOND SECONDS CERTIFICATES

prints its address, waits until all logs are followed, writes to them at that pace in turn, then lets all pods and the
JobSet end, and prints the seconds that the writing took. CERTIFICATES is a folder with server.pem and server.key.
The stand-in for clusters in tests/cloud is made to behave, not to be fast: a line through its web server takes as long
as a line may take here altogether.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMESPACE, NAME, UID = "default", "many", "uid-many"
_LOG = "/log"


def stamp(at: float) -> str:
    """Returns a time as container runtimes write it."""
    whole = int(at)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((at - whole) * 1e9):09d}Z"


def pod(number: int, version: int, state: Mapping[str, Any], phase: str) -> dict[str, Any]:
    """Returns a pod as large as real ones are."""
    environment = [{"name": f"VARIABLE_{one}", "value": "a value of some length"} for one in range(20)]
    fields = {f"f:field-{one}": {"f:inner": {}, "f:another": {}} for one in range(60)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{NAME}-slice-job-{number // 100}-{number % 100}-abcde",
            "namespace": NAMESPACE,
            "uid": f"uid-{number}",
            "resourceVersion": str(version),
            "labels": {
                "jobset.sigs.k8s.io/jobset-uid": UID,
                **{f"label-{one}": "x" * 20 for one in range(12)},
            },
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {"containers": [{"name": "jax-tpu", "image": "gcr.io/p/i@sha256:0", "env": environment}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "jax-tpu", "restartCount": 0, "state": state}],
        },
    }


def job_set(version: int, **status: Any) -> dict[str, Any]:
    """Returns the JobSet."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": UID, "resourceVersion": str(version)},
        "spec": {},
        "status": status,
    }


class World:
    """The pods' logs, who follows them, and who watches."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self.logs: list[list[bytes]] = [[] for _ in range(pods)]
        self.followers: dict[int, Answer] = {}
        self.watchers: dict[str, Answer] = {}
        self.all_there = asyncio.Event()
        self.ended = False

    def one(self, number: int) -> dict[str, Any]:
        """Returns a pod as it is now."""
        if self.ended:
            return pod(number, 20 + number, {"terminated": {"exitCode": 0}}, "Succeeded")
        return pod(number, 10, {"running": {}}, "Running")

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """Returns all of a kind."""
        if kind == "pods":
            return [self.one(number) for number in range(self.pods)]
        return [job_set(10)] if kind == "jobsets" else []

    async def play(self, per_second: float, seconds: float) -> float:
        """Writes the lines, in turn; returns how long that took."""
        clock, total, written = time.monotonic, int(per_second * seconds), 0
        begin = clock()
        while written < total:
            due = min(total, int((clock() - begin) * per_second) + 1)
            while written < due:
                number = written % self.pods
                words = f"line {written // self.pods} of pod {number}: loss 0.1234, step 5.6 s, 7.8 GB/s"
                text = f"{stamp(time.time())} {words}\n".encode()
                self.logs[number].append(text)
                if (follower := self.followers.get(number)) is not None:
                    follower.chunk(text)
                written += 1
            await asyncio.sleep(0.002)
        return clock() - begin

    def end(self) -> None:
        """All pods end, and with them the JobSet."""
        self.ended = True
        for follower in self.followers.values():
            follower.chunk(b"")
        for number in range(self.pods):
            told = {"type": "MODIFIED", "object": self.one(number)}
            self.watchers["pods"].chunk(json.dumps(told).encode() + b"\n")
        one = job_set(100_000, terminalState="Completed")
        self.watchers["jobsets"].chunk(json.dumps({"type": "MODIFIED", "object": one}).encode() + b"\n")


class Answer(asyncio.Protocol):
    """One connection."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._transport: asyncio.Transport | None = None
        self._asked = b""
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while b"\r\n\r\n" in self._asked:
            head, _, self._asked = self._asked.partition(b"\r\n\r\n")
            parts = urlsplit(head.split(b" ")[1].decode())
            self._answer(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

    def _answer(self, path: str, query: Mapping[str, str]) -> None:
        world = self._world
        if path.endswith(_LOG):
            slice_, index = path.removesuffix(_LOG).rpartition("/")[2].split("-")[-3:-1]
            number, self._begun = int(slice_) * 100 + int(index), False
            since = query.get("sinceTime", "").removesuffix("Z").encode()
            missed = [line for line in world.logs[number] if line[:19] >= since]
            if missed:
                self.chunk(b"".join(missed))
            if world.ended:
                self.chunk(b"")
                return
            world.followers[number] = self
            if len(world.followers) == world.pods:
                world.all_there.set()
            return
        kind = path.rpartition("/")[2]
        if query.get("watch"):
            self._begin("application/json")
            world.watchers[kind] = self
            return
        items = world.listed(kind)
        start = int(query.get("continue", "0"))
        page = items[start : start + int(query.get("limit", "500"))]
        more = str(start + len(page)) if start + len(page) < len(items) else ""
        body = json.dumps({"metadata": {"resourceVersion": "10", "continue": more}, "items": page}).encode()
        assert self._transport
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _begin(self, type_: str) -> None:
        assert self._transport
        self._begun = True
        self._transport.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: {type_}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )

    def chunk(self, data: bytes) -> None:
        """Sends a piece; an empty one is the end. A log's answer begins with its first piece."""
        assert self._transport
        if not self._begun:
            self._begin("text/plain")
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))


async def serve(pods: int, per_second: float, seconds: float, certificates: Path) -> None:
    """Plays once."""
    world = World(pods)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    server = await asyncio.get_running_loop().create_server(
        lambda: Answer(world), "127.0.0.1", 0, backlog=2048, ssl=context
    )
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await world.all_there.wait()
    print(await world.play(per_second, seconds), flush=True)
    world.end()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the bench is through


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])))
