"""Health, metrics and logs: they tell what happened, and nothing that is a secret."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runtime.contract.keymap import parse_key_map
from runtime.gcs_proxy import serving
from runtime.gcs_proxy.admin import Admin, Readiness
from runtime.gcs_proxy.buffers import Budget
from runtime.gcs_proxy.gateway import Gateway
from runtime.gcs_proxy.keys import KeyRing, make_key_file
from runtime.gcs_proxy.observing import Log, Observer
from runtime.gcs_proxy.peers import merged
from runtime.gcs_proxy.serve import listening
from runtime.gcs_proxy.server import Server
from runtime.gcs_proxy.serving import answer
from runtime.gcs_proxy.upstream import Pool, parse_origin
from tests.cloud import kms as kms_stand_in
from tests.cloud.store.running import Store
from tests.runtime.gcs_proxy.asking import Clock, Proxy, path
from tests.waiting import until


class Watched:
    """A proxy that is watched, its port for administrators, and what it said."""

    def __init__(self, url: str, folder: Path, level: int) -> None:
        make_key_file(folder / "key.json")
        entries = parse_key_map(f"*:file:{folder}/key.json")
        gate = Gateway(entries, KeyRing(entries.keys), Pool(parse_origin(url)), Budget(8 << 20))
        self.log = io.StringIO()
        observer = Observer(gate, level, Log(self.log))
        admin = Admin(gate, observer)
        self.servers = []
        urls = []
        for handle in (
            lambda client: observer.watch(client, lambda one: answer(gate, one)),
            admin.answer,
        ):
            listener = listening(("127.0.0.1", 0))
            self.servers.append(Server(listener, handle))
            threading.Thread(target=self.servers[-1].serve, daemon=True).start()
            urls.append(f"http://127.0.0.1:{listener.getsockname()[1]}")
        self.proxy, self.admin = (Proxy(one, folder / "key.json") for one in urls)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("defect", "status"), [(KeyError("data"), 400), (MemoryError("data"), 503), (OSError(24, "data"), 503)]
)
def test_a_defect_of_ours_is_answered_and_told_in_a_line_without_what_it_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: Exception, status: int
) -> None:
    def fails(*_: object) -> None:
        raise defect

    monkeypatch.setattr(serving, "route", fails)
    watched = Watched(store.url, tmp_path, 0)
    told = watched.proxy.ask("GET", "/storage/v1/b/x/o/y")
    assert told.status == status and type(defect).__name__ in told.message and "data" not in told.message
    until(lambda: len(watched.lines()) == 2)
    line, request = watched.lines()
    assert (line["event"], line["error"], request["status"]) == ("defect", type(defect).__name__, status)
    assert line["at"][-1].startswith("test_observing.py:") and "data" not in watched.log.getvalue()
    for server in watched.servers:
        server.stop(0)


@pytest.fixture(params=[0, 1])
def watched(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    made = Watched(store.url, tmp_path, request.param)
    made.level = request.param  # type: ignore[attr-defined]
    yield made
    for server in made.servers:
        server.stop(0)


def test_what_happened_is_told_without_secrets(watched: Watched, store: Store, bucket: str) -> None:
    proxy, secret = watched.proxy, {"Authorization": "Bearer SECRET"}
    told = iter((1, 2, 3, 4) if watched.level else (0, 0, 1, 2))  # type: ignore[attr-defined]

    def until_told() -> None:
        """A line comes a moment after the answer, and might come after that of the next request."""
        count = next(told)
        until(lambda: len(watched.lines()) == count)

    proxy.upload(bucket, "ä/x", b"PLAIN" * 100, **secret)
    until_told()
    proxy.read(bucket, "ä/x")
    until_told()
    proxy.ask("POST", f"{path(bucket, 'x')}/compose?token=SECRET", b"{}", secret)
    until_told()
    proxy.ask(
        "PUT", f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id=SECRET", b"PLAIN", secret
    )
    until_told()
    assert "SECRET" not in watched.log.getvalue() and "PLAIN" not in watched.log.getvalue()
    composed, gone = watched.lines()[-2:]
    assert (composed["kind"], composed["status"], composed["bucket"], composed["object"]) == (
        "other",
        400,
        bucket,
        "x",
    )
    assert "compose" in composed["why"]
    assert (gone["kind"], gone["status"]) == ("session", 410)
    if watched.level:  # type: ignore[attr-defined]
        first, second = watched.lines()[:2]
        assert (first["method"], first["object"], first["status"]) == ("POST", "ä/x", 200)
        assert (second["kind"], second["bytes"]) == ("media", 500)


def test_numbers_are_there_for_prometheus(watched: Watched, store: Store, bucket: str) -> None:
    watched.proxy.upload(bucket, "x", b"12345")
    watched.proxy.read(bucket, "x")
    watched.proxy.read(bucket, "none")
    watched.proxy.ask("POST", f"{path(bucket, 'x')}/compose", b"{}")
    wanted = [
        'gcs_proxy_requests_total{kind="upload",status="200"} 1.0',
        'gcs_proxy_requests_total{kind="media",status="200"} 1.0',
        'gcs_proxy_requests_total{kind="media",status="404"} 1.0',
        'gcs_proxy_refusals_total{reason="notSupportedOnEncryptedObjects"} 1.0',
        'gcs_proxy_request_seconds_count{kind="media"} 2.0',
        "gcs_proxy_buffer_bytes 0.0",
        "gcs_proxy_buffer_waiting 0.0",
        "gcs_proxy_encrypting 1.0",
        "gcs_proxy_uploads 0.0",
    ]
    until(lambda: all(line in watched.admin.ask("GET", "/metrics").content.decode() for line in wanted))


def test_prometheus_reads_the_numbers_of_one_process_and_of_several(watched: Watched, bucket: str) -> None:
    watched.proxy.upload(bucket, "x", b"12345")
    until(lambda: b"request_seconds_count{" in watched.admin.ask("GET", "/metrics").content)
    own = watched.admin.ask("GET", "/metrics")
    assert own.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    alone = own.content.decode()
    for text, processes in ((alone, 1), (merged({0: alone, 1: alone}), 2)):
        families = {one.name: one for one in text_string_to_metric_families(text)}
        kinds = {
            name: families[f"gcs_proxy_{name}"].type for name in ("requests", "request_seconds", "uploads")
        }
        assert kinds == {"requests": "counter", "request_seconds": "histogram", "uploads": "gauge"}
        assert len(families["gcs_proxy_uploads"].samples) == processes
        assert all(not family.name.endswith("_created") for family in families.values())


def test_it_says_that_it_is_alive_and_takes_nothing_there(watched: Watched) -> None:
    assert watched.admin.ask("GET", "/healthz").json == {"status": "ok"}
    assert watched.admin.ask("GET", "/readyz").json == {"status": "ok"}
    assert watched.admin.ask("GET", "/other").status == 404
    assert watched.admin.ask("POST", "/healthz", b"x").status == 405


def test_numbers_of_several_processes_are_told_together() -> None:
    told = {
        1: '# HELP a_total A\n# TYPE a_total counter\na_total{kind="x y"} 2.0\n# HELP b B\n# TYPE b gauge\nb 5.0\n',
        0: '# HELP a_total A\n# TYPE a_total counter\na_total{kind="z"} 1.0\n',
    }
    assert merged(told).splitlines() == [
        "# HELP a_total A",
        "# TYPE a_total counter",
        'a_total{process="0",kind="z"} 1.0',
        'a_total{process="1",kind="x y"} 2.0',
        "# HELP b B",
        "# TYPE b gauge",
        'b{process="1"} 5.0',
    ]


def test_it_is_ready_while_all_keys_work_and_does_not_ask_each_time(tmp_path: Path, store: Store) -> None:
    name = "projects/p/locations/global/keyRings/r/cryptoKeys/k"
    (tmp_path / "kms").mkdir()
    with kms_stand_in.running(tmp_path / "kms") as kms:
        entries, clock = parse_key_map(f"*:{name}"), Clock()
        ring = KeyRing(entries.keys, kms.endpoint)
        gate = Gateway(entries, ring, Pool(parse_origin(store.url)), Budget(8 << 20))
        ready = Readiness(gate, clock)
        assert ready.wrong() == ""
        kms.set(denied=[name])
        assert ready.wrong() == "", "it was asked again at once"
        clock.now += 61
        assert name in ready.wrong()
        kms.set()
        assert name in ready.wrong()
        clock.now += 6
        assert ready.wrong() == ""
