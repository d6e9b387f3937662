"""Several processes on one port: an upload is where it was begun, one that dies is replaced, and all end together."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runtime.gcs_proxy.keys import make_key_file
from tests.cloud.store.running import ROOT, Store
from tests.runtime.gcs_proxy.asking import Proxy
from tests.waiting import PATIENCE_S, until

START = "/upload/storage/v1/b/{}/o?uploadType=resumable&name=x"


class Running:
    """A proxy of two processes, and what it said."""

    def __init__(self, process: subprocess.Popen[str], key_file: Path) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        begun = self.hear("serving")
        self.proxy = Proxy(begun["url"], key_file)
        self.pids = {line["process"]: line["pid"] for line in (self.hear("working"), self.hear("working"))}

    def hear(self, event: str) -> dict[str, Any]:
        """Reads on until it says this."""
        assert self.process.stderr
        for text in self.process.stderr:
            self.lines.append(json.loads(text))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        raise AssertionError(f"it ended without saying {event}: {self.lines}")

    def connected_to(self, number: int, bucket: str) -> http.client.HTTPConnection:
        """Returns a connection that one process serves: the other is asleep when it comes."""
        with asleep(self.pids[1 - number]):
            connection = http.client.HTTPConnection(urlsplit(self.proxy.url).netloc, timeout=60)
            connection.request("GET", f"/storage/v1/b/{bucket}/o")
            connection.getresponse().read()
        return connection


@contextlib.contextmanager
def running(store: Store, folder: Path, *words: str) -> Iterator[Running]:
    key = folder / "key.json"
    make_key_file(key)
    command = [sys.executable, "-m", "runtime.gcs_proxy", "--listen", "127.0.0.1:0", "--upstream", store.url]
    command += ["--processes", "2", "--key-map", f"*:file:{key}", *words]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process, key)
        finally:
            process.kill()


def states(pid: int) -> set[str]:
    """Returns what its threads are doing, in the letters of /proc."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            found.add(path.read_text().rpartition(")")[2].split()[0])
    return found


@contextlib.contextmanager
def asleep(pid: int) -> Iterator[None]:
    """Stops a process: each of its threads stops in its own time, and until then takes connections."""
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: states(pid) == {"T"})
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # Whoever has taken over orphans may not have looked at this one yet.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_an_upload_goes_on_in_any_connection_until_its_process_dies(
    store: Store, bucket: str, tmp_path: Path
) -> None:
    with running(store, tmp_path) as family:
        begun = family.proxy.ask("POST", START.format(bucket), b"{}")
        place = begun.headers["Location"].removeprefix(family.proxy.url)
        holder = int(place.partition("upload_id=")[2].partition(".")[0])
        with contextlib.closing(family.connected_to(1 - holder, bucket)) as other:
            other.request("PUT", place, b"123", {"Content-Range": "bytes 0-2/5"})
            told = other.getresponse()
            assert (told.read(), told.status, told.headers["Range"]) == (b"", 308, "bytes=0-2")
            other.request("PUT", place, b"45", {"Content-Range": "bytes 3-4/5"})
            done = other.getresponse()
            resource = json.loads(done.read())
            assert (done.status, resource["size"]) == (200, "5")
            assert resource["selfLink"].startswith(f"{family.proxy.url}/"), "that is where clients ask"
            again = family.proxy.ask("POST", START.format(bucket), b"{}").headers["Location"]
            number = int(again.partition("upload_id=")[2].partition(".")[0])
            os.kill(family.pids[number], signal.SIGKILL)
            died = family.hear("process died")
            assert (died["process"], died["how"]) == (number, "signal 9")
            family.hear("working")
        lost = family.proxy.ask(
            "PUT", again.removeprefix(family.proxy.url), b"1", {"Content-Range": "bytes */*"}
        )
        assert lost.status in (400, 410)
        assert family.proxy.ask("PUT", again.removeprefix(family.proxy.url), b"12345").status == 410
        assert family.proxy.read(bucket, "x").content == b"12345"
        family.process.send_signal(signal.SIGTERM)
        assert family.process.wait(PATIENCE_S) == 0
    assert b"12345" not in store.raw(bucket, "x")


def test_all_processes_tell_of_themselves_at_one_port_and_end_with_the_first(
    store: Store, tmp_path: Path
) -> None:
    with running(store, tmp_path, "--admin", "127.0.0.1:0", "--certificates", str(tmp_path / "c")) as family:
        begun = family.lines[0]
        admin = Proxy(begun["admin"], tmp_path)
        assert admin.ask("GET", "/healthz").json == {"status": "ok"}
        numbers = admin.ask("GET", "/metrics").content.decode()
        for number in family.pids:
            assert f'gcs_proxy_uploads{{process="{number}"}} 0.0' in numbers
        # Whoever is asked may be the one that is asleep: then nobody answers, which a probe takes for a no.
        with asleep(family.pids[0]), contextlib.suppress(OSError):
            assert admin.ask("GET", "/healthz").status == 503
        family.process.kill()
        until(lambda: all(map(gone, family.pids.values())))


def test_processes_that_die_again_and_again_end_the_proxy() -> None:
    program = (
        "import os, sys\n"
        "from runtime.gcs_proxy.observing import Log\n"
        "from runtime.gcs_proxy.processes import block_signals, run_several\n"
        "block_signals()\n"
        "sys.exit(run_several(2, lambda number, over: 1 / 0, Log(), 1.0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "giving up" in done.stderr
