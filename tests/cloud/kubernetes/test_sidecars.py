"""Shows how containers that stand beside others live: up before them, asked by probes, started again, ended last."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cloud.kubernetes.manifests import pod
from tests.cloud.kubernetes.space import Space

_FILE = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("asked to end", flush=True), sys.exit(0)))
pathlib.Path(os.environ["AT"], "ca.pem").write_text("mine")
print("up", flush=True)
while True: signal.pause()
"""
_SERVES = """
import os, socket
serving = socket.create_server(("{}", int(os.environ["AT"].split(":")[1])))
while True: serving.accept()
"""
_DIES_ONCE = """
import os, pathlib, signal, sys, time
mark = pathlib.Path(os.environ["AT"], "starts")
starts = mark.read_text() if mark.exists() else ""
mark.write_text(starts + "x")
print("start", len(starts), flush=True)
if not starts:
    while not pathlib.Path(os.environ["AT"], "die").exists(): time.sleep(0.01)
    sys.exit(7)
while True: signal.pause()
"""


def _beside(program: str, probe: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    told = {
        "name": "beside",
        "image": "img:1",
        "restartPolicy": "Always",
        "command": ["python", "-u", "-c", program],
        "env": [{"name": "AT", "value": "/shared"}],
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        **more,
    }
    return {**told, "startupProbe": probe} if probe else told


def _pod(program: str, beside: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = pod("a", program, volumes=[{"name": "shared", "emptyDir": {}}], initContainers=[beside], **spec)
    (main,) = made["spec"]["containers"]
    main["volumeMounts"], main["env"] = beside["volumeMounts"], [{"name": "AT", "value": "/shared"}]
    return made


def _status(told: dict[str, Any]) -> dict[str, Any]:
    (found,) = told["status"].get("initContainerStatuses") or [{"started": False, "restartCount": 0}]
    return dict(found)


def test_a_command_says_in_the_container_that_it_is_up_and_the_others_wait_for_that(api: Space) -> None:
    probe = {"exec": {"command": ["test", "-s", "/shared/ca.pem"]}, "periodSeconds": 1, "timeoutSeconds": 5}
    reads = "import os; print(open(os.environ['AT'] + '/ca.pem').read())"
    api.post("pods", _pod(reads, _beside(_FILE, {**probe, "failureThreshold": 60})))
    told = api.eventually("pods", "a", lambda told: told["status"]["phase"] == "Succeeded")
    assert api.log("a", container="main") == "mine\n"
    assert api.log("a", container="beside") == "up\nasked to end\n", "after the others, and not before"
    assert _status(told)["state"]["terminated"]["exitCode"] == 0 and _status(told)["restartCount"] == 0
    api.delete("pods", "a")


@pytest.mark.parametrize(
    ("listens", "host", "on_host", "passes"),
    [
        ("0.0.0.0", None, False, True),
        ("127.0.0.1", None, False, False),
        ("127.0.0.1", "127.0.0.1", False, False),
        ("127.0.0.1", "127.0.0.1", True, True),
    ],
)
def test_a_port_is_asked_from_outside_of_the_pod(
    api: Space, listens: str, host: str | None, on_host: bool, passes: bool
) -> None:
    at = {"tcpSocket": {"port": 9080, **({"host": host} if host else {})}}
    probe = {**at, "periodSeconds": 1, "failureThreshold": 60 if passes else 1}
    beside = _beside(_SERVES.format(listens), probe, ports=[{"containerPort": 9080}])
    beside["env"] = [{"name": "AT", "value": "127.0.0.1:9080"}]
    spec = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if on_host else {}
    api.post("pods", _pod("pass", beside, terminationGracePeriodSeconds=5, **spec))
    if passes:
        api.eventually("pods", "a", lambda told: told["status"]["phase"] == "Succeeded")
    else:
        told = api.eventually("pods", "a", lambda told: _status(told)["restartCount"] >= 1)
        assert told["status"]["phase"] == "Pending" and not _status(told)["started"]
        assert _status(told)["lastState"]["terminated"]["exitCode"] == 143, "it was told to end"
        assert ("Killing", "Container beside failed startup probe, will be restarted") in api.events("a")
    api.delete("pods", "a")
    api.gone("pods", "a")


def test_one_that_dies_is_started_again_at_once_and_the_others_go_on(api: Space) -> None:
    waits = (
        "import os, pathlib, time\nshared = pathlib.Path(os.environ['AT'])\n(shared / 'die').touch()\n"
        "starts = shared / 'starts'\n"  # without a probe, this may begin before the other has written anything
        "while not starts.exists() or starts.read_text() != 'xx': time.sleep(0.01)\n"
        "while not (shared / 'end').exists(): time.sleep(0.01)\n"
    )
    beside = _beside(_DIES_ONCE, None)
    api.post("pods", _pod(waits + "print('went on')", beside, terminationGracePeriodSeconds=1))
    seen = api.eventually(
        "pods", "a", lambda told: _status(told)["restartCount"] == 1 and _status(told)["started"]
    )
    status = _status(seen)
    assert seen["status"]["phase"] == "Running" and "running" in status["state"]
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert api.log("a", container="beside", previous="true") == "start 0\n"
    api.delete("pods", "a")
    api.gone("pods", "a")
