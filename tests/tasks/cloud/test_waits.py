"""Who waits for an answer that does not come is told of what, and until when; then the call ends by itself."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runtime.contract.errors import ExitCode, InfrastructureError
from tasks.cloud import gs_objects, gs_storage
from tasks.cloud.calls import Unanswered
from tasks.cloud.compute import ENDPOINT_VARIABLE as COMPUTE
from tasks.cloud.compute import Compute
from tasks.cloud.container import Container
from tasks.cloud.container_transport import ENDPOINT_VARIABLE as CONTAINER
from tasks.cloud.gs_objects import GsObjects
from tasks.cloud.gs_storage import GsFolder
from tasks.cloud.image_names import image_name
from tasks.cloud.kube_manifests import Wanted, fetch
from tasks.cloud.kubernetes import Kubernetes
from tasks.cloud.kubernetes_access import Access
from tasks.cloud.kubernetes_kinds import JOB_SET
from tasks.cloud.kubernetes_link import Link, Patience
from tasks.cloud.kubernetes_plain import PlainWire
from tasks.cloud.permission import may_write
from tasks.cloud.registry import Registry
from tasks.cloud.registry_wire import Wire as RegistryWire
from tasks.cloud.storage import Folder, probe_writable
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.tpu import CloudTpu
from tasks.cloud.tpu_transport import ENDPOINT_VARIABLE as TPU
from tasks.cloud.waits import telling, untold, waiting
from tests.waiting import PATIENCE_S

LONG = Timing(try_s=60.0, total_s=0.0)
SHORT = Timing(try_s=0.2, total_s=0.0)


@dataclass
class Silent:
    """A server that takes connections and never says anything, until it hangs up on all of them."""

    listener: socket.socket

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def hang_up(self) -> None:
        self.listener.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Silent(listener)


def _kubernetes(silent: Silent, timing: Timing) -> object:
    return Kubernetes(Access("context c", f"http://{silent.address}"), timing=timing).list(JOB_SET)


def _plain(silent: Silent, timing: Timing) -> object:
    access = Access("context c", f"http://{silent.address}")
    return Kubernetes(access, timing=timing, wire=PlainWire).list(JOB_SET)


def _create(silent: Silent, timing: Timing) -> object:
    made = {"metadata": {"name": "n"}}
    return Kubernetes(Access("context c", f"http://{silent.address}"), timing=timing).create(JOB_SET, made)


def _followed(silent: Silent, timing: Timing) -> object:
    async def ask() -> object:
        async with (
            Link(Access("context c", f"http://{silent.address}"), Patience()) as link,
            link.stream("watch jobsets", "/x", {}, answer_s=timing.try_s) as answer,
        ):
            return answer

    return asyncio.run(ask())


def _gke(silent: Silent, timing: Timing) -> object:
    os.environ[CONTAINER] = silent.address
    return Container("proj", timing=timing).clusters()


def _compute(silent: Silent, timing: Timing) -> object:
    os.environ[COMPUTE] = silent.address
    return Compute("proj", timing=timing).zones("us-west4")


def _tpu(silent: Silent, timing: Timing) -> object:
    os.environ[TPU] = silent.address
    return CloudTpu("proj", timing=timing).node("us-west4-a", "n")


def _bucket(silent: Silent, timing: Timing) -> object:
    os.environ["STORAGE_EMULATOR_HOST"] = f"http://{silent.address}"
    gs_storage._CALL_S, gs_storage._RETRY_S = (timing.try_s, timing.try_s), timing.total_s
    gs_storage._LONGEST_S = timing.longest_s
    return GsFolder("b", "runs").read("x")


def _ledger(silent: Silent, timing: Timing) -> object:
    os.environ["STORAGE_EMULATOR_HOST"] = f"http://{silent.address}"
    gs_objects._CALL_S = (timing.try_s, timing.try_s)
    return GsObjects("b", "ledger", patience_s=timing.total_s).names()


def _registry(silent: Silent, timing: Timing) -> object:
    with Registry(RegistryWire(timing)) as registry:
        return registry.tags(image_name(f"{silent.address}/team/worker:1"))


def _manifests(silent: Silent, timing: Timing) -> object:
    wanted = Wanted("jobset", "v0.12.0", f"http://{silent.address}/manifests.yaml")
    return fetch(wanted, Path("/nonexistent"), timing=timing)


CALLS = {
    "kubernetes: list jobsets.jobset.x-k8s.io (context c)": [_kubernetes, _plain],
    "kubernetes: make JobSet n (context c)": [_create],
    "kubernetes: watch jobsets (context c)": [_followed],
    "gke: list clusters in all locations of proj": [_gke],
    "compute: look at the region us-west4": [_compute],
    "tpu: look at TPU VM n in us-west4-a": [_tpu],
    "gs: read gs://b/runs/x": [_bucket],
    "gs: list gs://b/ledger": [_ledger],
    "registry: GET http://ADDRESS/v2/team/worker/tags/list": [_registry],
    "http: fetch the manifests of jobset v0.12.0": [_manifests],
}
EACH = [
    pytest.param(what, call, id=call.__name__.strip("_")) for what, calls in CALLS.items() for call in calls
]


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts back what the calls set: their clients know the server by the environment."""
    for name in (CONTAINER, COMPUTE, TPU, "STORAGE_EMULATOR_HOST"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for module, names in ((gs_storage, ("_CALL_S", "_RETRY_S", "_LONGEST_S")), (gs_objects, ("_CALL_S",))):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))


@pytest.mark.parametrize(("what", "call"), EACH)
def test_who_waits_for_a_service_is_told_of_what_and_how_long(
    what: str, call: Callable[[Silent, Timing], object], silent: Silent
) -> None:
    expected, said = what.replace("ADDRESS", silent.address), list[str]()

    def tell(text: str) -> None:
        said.append(text)
        silent.hang_up()

    with telling(tell, after_s=0.0), pytest.raises(InfrastructureError):
        call(silent, LONG)
    begin, _, named = said[0].partition(" more at most: ")
    assert named == expected
    assert re.match(r"still waiting after \d+ s, for ", begin), begin


@pytest.mark.parametrize(("what", "call"), EACH)
def test_a_call_that_is_not_answered_ends_by_its_own_limit(
    what: str, call: Callable[[Silent, Timing], object], silent: Silent
) -> None:
    with pytest.raises(InfrastructureError) as ended:
        call(silent, SHORT)
    assert ended.value.exit_code is ExitCode.INFRASTRUCTURE
    told = str(ended.value)
    assert any(word in told for word in ("context c", "proj", "us-west4", "gs://b", silent.address)), told
    assert ": is " in told or "; " in told, "it says what to do"


@pytest.mark.parametrize("look", [may_write, probe_writable])
def test_a_bucket_that_does_not_answer_is_not_called_one_that_cannot_be_written(
    look: Callable[[Folder], object], silent: Silent
) -> None:
    with pytest.raises(InfrastructureError):
        _bucket(silent, SHORT)  # from here on its limits hold
    with pytest.raises(Unanswered, match="gs://b/runs.*is it up, and reachable from here"):
        look(GsFolder("b", "runs"))


def test_of_waits_within_one_another_the_outermost_is_told_for_as_long_as_the_innermost_may_take() -> None:
    said, heard = list[str](), threading.Event()
    with telling(lambda text: (said.append(text), heard.set())[0], after_s=0.0):
        with untold(), waiting("nobody", 5.0):
            pass
        with waiting("the whole", 10.0), waiting("a part", 400.0), waiting("work", None):
            assert heard.wait(60)
    assert [line.partition(": ")[2] for line in said[:1]] == ["the whole"]
    assert not any("a part" in line or "nobody" in line for line in said)


def test_tries_that_wait_in_vain_end_when_the_time_of_the_call_is_over() -> None:
    timing = Timing(try_s=60.0, total_s=0.05, first_pause_s=0.0)
    came = 0
    for pause in pauses(timing, "ask"):  # none of the pauses takes any time, so only the clock can end it
        came += 1
        if pause is None:
            break
    assert came > 1


def test_nothing_is_told_where_nobody_listens() -> None:
    before = threading.active_count()
    with waiting("x", 1.0):
        assert threading.active_count() == before


def test_what_the_last_try_came_to_is_told_while_it_is_tried_again() -> None:
    """Nobody knows what to see to from "still waiting" alone: a webhook that is down says which."""
    told: list[str] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = any("no endpoints" in line for line in told)
            body = (
                b'{"metadata": {}, "items": []}'
                if known
                else b'{"message": "no endpoints available", "code": 503}'
            )
            self.send_response(200 if known else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        access = Access("context c", f"http://127.0.0.1:{server.server_address[1]}")
        often = Timing(try_s=60.0, total_s=PATIENCE_S, first_pause_s=0.01, longest_pause_s=0.05)
        with telling(told.append, after_s=0.01, again_s=0.01):
            assert Kubernetes(access, timing=often).list(JOB_SET).items == []
        server.shutdown()
    assert any("; the last try: cannot list jobsets" in line for line in told)
