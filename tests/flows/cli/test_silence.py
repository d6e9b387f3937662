"""A command whose service does not answer says so on stderr while it waits, and ends with exit code 3."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from flows.cli import main as command
from runtime.contract.errors import ExitCode
from tasks.cloud import container, gs_objects, kubernetes, timing, waits
from tasks.cloud.container_transport import ENDPOINT_VARIABLE
from tasks.cloud.timing import Timing
from tasks.leases.gs_ledger import GsLedger

CLUSTER = ["--context", "c", "--kubeconfig", "{kubeconfig}"]
POD = ["--type", "cpu", "--nodes", "1", "--queue", "none", "--priority", "none"]
IMAGE = ["--docker-image", "x@sha256:{digest}"]
COMMANDS = {
    "gke: list clusters in all locations of proj": [
        ["cluster", "list"],
        ["workload", "list", "--cluster", "c"],
    ],
    "kubernetes: list jobsets.jobset.x-k8s.io (context c)": [
        ["workload", "list", *CLUSTER],
        ["workload", "delete", "--filter-by-job", "n", *CLUSTER],
    ],
    "kubernetes: look at JobSet n (context c)": [["workload", "explain", "n", *CLUSTER]],
    "kubernetes: list pods (context c)": [
        ["workload", "create", "n", *CLUSTER, *POD, *IMAGE, "--command", "true"]
    ],
    "gs: list gs://bucket/ledger": [["leases"], ["reap", "--dry-run"]],
}
KUBECONFIG = """\
apiVersion: v1
clusters: [{{name: k, cluster: {{server: "http://{address}"}}}}]
users: [{{name: u, user: {{}}}}]
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
"""


@pytest.mark.parametrize(
    ("what", "words"),
    [
        pytest.param(what, words, id=" ".join(words[:2] + words[2:3]))
        for what, lines in COMMANDS.items()
        for words in lines
    ],
)
def test_a_command_that_gets_no_answer_says_what_it_waits_for(
    what: str,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    once = Timing(
        try_s=300.0, total_s=0.0
    )  # one try that would take minutes, so that it is ended by who was told
    for module in (container, kubernetes, timing):
        monkeypatch.setattr(module, "Timing", lambda **_: once)
    monkeypatch.setattr(gs_objects, "_CALL_S", (300.0, 300.0))
    monkeypatch.setitem(GsLedger.__init__.__kwdefaults__, "patience_s", 0.0)
    monkeypatch.setattr(waits, "_AFTER_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(address=address))
        monkeypatch.setenv("SLICEBENCH_PROJECT", "proj")
        monkeypatch.setenv(ENDPOINT_VARIABLE, address)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{address}")
        if what.startswith("gs:"):
            monkeypatch.setenv("SLICEBENCH_LEDGER", "gs://bucket/ledger")
        tell = command._tell_wait
        monkeypatch.setattr(command, "_tell_wait", lambda text: (tell(text), silent.close()))
        code = command.main([word.format(kubeconfig=kubeconfig, digest=64 * "0") for word in words])
    said = capsys.readouterr().err
    assert code == ExitCode.INFRASTRUCTURE, said
    assert f" more at most: {what}" in said
    assert "\nslicebench: " in said
