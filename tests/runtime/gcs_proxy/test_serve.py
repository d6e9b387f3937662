"""The proxy as a process: what it is told by, what it refuses to begin with, and that it ends what it was doing."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runtime.contract.errors import BadInput
from runtime.contract.keymap import KeyMap, KeyRef
from runtime.gcs_proxy import serve
from runtime.gcs_proxy.__main__ import main
from runtime.gcs_proxy.options import Settings, add_options, settings
from tests.cloud.store.running import ROOT, Store
from tests.runtime.gcs_proxy.asking import Proxy, path
from tests.waiting import PATIENCE_S, until

KEY = "projects/p/locations/global/keyRings/r/cryptoKeys/k"


def told(*words: str, **environ: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return settings(parser.parse_args(words), environ)


def test_go_gcsproxys_variables_are_heard_and_options_win_over_them() -> None:
    by_variable = told(GCP_KMS_BUCKET_KEY_MAPPING=f"bkt:{KEY}")
    assert by_variable.key_map.key("bkt", "x") == KeyRef(f"gcp-kms://{KEY}")
    assert told("--key-map", f"bkt2:{KEY}", GCP_KMS_BUCKET_KEY_MAPPING="rubbish").key_map.touches("bkt2")
    assert told("--key-map", f"*:{KEY}", GCS_PROXY_DISABLE_ENCRYPTION="1").key_map == KeyMap()
    assert told("--no-encryption").key_map == KeyMap()
    assert told("--key-map", f"*:{KEY}", SSL_INSECURE="false").listen == ("127.0.0.1", 9081)
    assert told("--key-map", f"*:{KEY}", "--listen", "[::1]:0").listen == ("::1", 0)
    assert told("--no-encryption", PROXY_CERT_PATH="").forward is None
    by_proxy = told("--no-encryption", "--allow", "a.com:8443", PROXY_CERT_PATH="/proxy/certs").forward
    assert by_proxy and (by_proxy.listen, by_proxy.certificates) == (
        ("127.0.0.1", 9080),
        Path("/proxy/certs"),
    )
    assert (by_proxy.allowed[0].host, by_proxy.allowed[-1].port) == ("oauth2.googleapis.com", 8443)
    assert told("--no-encryption", "--certificates", "/c", PROXY_CERT_PATH="/proxy/certs").forward != by_proxy
    for url in ("http://127.0.0.1:4443", "http://[::1]:4443", "http://localhost:4443", "https://store:4443"):
        assert told("--no-encryption", "--upstream", url).upstream == url
    assert [told("--no-encryption", *words).users for words in ([], ["--login"], ["--login", "all"])] == [
        "own",
        "own",
        "all",
    ]
    assert told("--no-encryption", "--users", "all", "--login").users == "all"
    loud = told("--no-encryption", "--admin", "0.0.0.0:9082", DEBUG_LEVEL="1")
    assert (loud.admin, loud.level) == (("0.0.0.0", 9082), 1)


@pytest.mark.parametrize(
    "words, environ, said",
    [
        ([], {}, "nothing would be encrypted"),
        (["--key-map", ""], {}, "nothing would be encrypted"),
        (["--key-map", "bkt"], {}, "no entry of a key map"),
        (["--no-encryption"], {"SSL_INSECURE": "1"}, "always verified"),
        (["--no-encryption", "--listen", "0.0.0.0:9081"], {}, "not on loopback"),
        (["--no-encryption", "--listen", "9081"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "127.0.0.1:70000"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--admin", "x:1"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "::1:9081"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "[::1:9081"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "[::1]"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "[127.0.0.1]:1"], {}, "no ADDRESS:PORT"),
        (["--no-encryption", "--listen", "[::]:9081"], {}, "not on loopback"),
        (["--no-encryption", "--listen", "127.0.0.1:+1"], {}, "no ADDRESS:PORT"),
        (["--no-encryption"], {"DEBUG_LEVEL": "all"}, "DEBUG_LEVEL is 'all'"),
        (["--no-encryption", "--buffer-mib", "1"], {}, "at least 4"),
        (["--no-encryption", "--buffer-mib", "11", "--processes", "3"], {}, "at least 4 for each"),
        (["--no-encryption", "--upstream", "http://storage.googleapis.com"], {}, "without TLS"),
        (["--no-encryption", "--upstream", "http://10.0.0.1:4443"], {}, "without TLS"),
        (["--no-encryption", "--upstream", "storage.googleapis.com"], {}, "is no address of a store"),
        (["--no-encryption", "--upstream", "https://me:word@store:4443"], {}, "a password in it"),
        (
            ["--no-encryption", "--upstream", "http://[::1]:1", "--upstream-ca", "/none"],
            {},
            "no authority is",
        ),
        (["--key-map", f"*:{KEY}"], {"GCS_PROXY_DISABLE_ENCRYPTION": "false"}, "nothing is encrypted"),
        (["--key-map", f"*:{KEY}"], {"GCS_PROXY_DISABLE_ENCRYPTION": "0"}, "unset it"),
        (["--key-map", f"*:{KEY}"], {"GCS_PROXY_DISABLE_ENCRYPTION": " "}, "unset it"),
        (["--no-encryption", "--processes", "0"], {}, "from 1 to 64"),
        (["--no-encryption", "--old-key", "k"], {}, "is no key"),
        (["--no-encryption", "--allow", "a.com"], {}, "need --certificates"),
        (["--no-encryption", "--forward", "127.0.0.1:1"], {}, "need --certificates"),
        (["--no-encryption", "--forward", "0.0.0.0:1"], {"PROXY_CERT_PATH": "/c"}, "not on loopback"),
        (["--no-encryption", "--allow", "storage.googleapis.com"], {"PROXY_CERT_PATH": "/c"}, "unseen"),
        (["--no-encryption", "--certificate-days", "0"], {"PROXY_CERT_PATH": "/c"}, "1 to 365"),
    ],
)
def test_what_is_not_safe_or_not_clear_is_refused(
    words: list[str], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        told(*words, **environ)


def test_a_wrong_word_is_told_with_the_options_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words, option in ((["--x"], "--key-map"), (["new-key", "a", "--x"], "new-key [-h] FILE")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        said = capsys.readouterr().err
        assert ended.value.code == 2 and option in said and "unrecognized arguments: --x" in said


def test_a_package_that_is_missing_is_named() -> None:
    program = (
        "import runpy, sys; sys.modules['tink'] = None; runpy.run_module('runtime.gcs_proxy', {}, '__main__')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("the proxy needs tink") and "pip install -e '.[proxy]'" in ended.stderr


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


IPV6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize("at", ["127.0.0.1:0", pytest.param("[::1]:0", marks=IPV6)])
def test_the_process_serves_until_it_is_told_to_end(
    store: Store, bucket: str, tmp_path: Path, at: str
) -> None:
    key = tmp_path / "key.json"
    made = subprocess.run(
        [sys.executable, "-m", "runtime.gcs_proxy", "new-key", str(key)], cwd=ROOT, check=True
    )
    assert made.returncode == 0
    command = [sys.executable, "-m", "runtime.gcs_proxy", "--listen", at, "--upstream", store.url]
    command += ["--forward", at]
    certificates = tmp_path / "certs"
    environ = {
        **os.environ,
        "GCP_KMS_BUCKET_KEY_MAPPING": f"{bucket}:file:{key}",
        "PROXY_CERT_PATH": str(certificates),
    }
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        begun = json.loads(process.stderr.readline())
        assert (begun["event"], begun["store"], begun["encrypting"]) == ("serving", store.url, True)
        proxy = Proxy(begun["url"], key)
        assert proxy.upload(bucket, "x", b"12345").status == 200
        assert proxy.read(bucket, "x").content == b"12345"
        assert b"12345" not in store.raw(bucket, "x")
        trusted = ssl.create_default_context(cafile=str(certificates / "ca-bundle.pem"))
        place = urlsplit(begun["forward"])
        connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=60, context=trusted)
        connection.set_tunnel("storage.googleapis.com")
        with contextlib.closing(connection):
            connection.request("GET", f"{path(bucket, 'x')}?alt=media")
            assert connection.getresponse().read() == b"12345"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert not list(certificates.iterdir()), "they trust nobody any more"


def test_what_is_under_way_is_answered_before_it_ends(
    store: Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody else is: who is silent between requests is cut off, and no more connections are taken."""
    monkeypatch.setattr(serve, "_GRACE_S", PATIENCE_S)
    reverse, over = serve.listening(("127.0.0.1", 0)), threading.Event()
    place = reverse.getsockname()
    settings = told("--no-encryption", "--users", "all", "--upstream", store.url)
    working = threading.Thread(
        target=serve._work, args=(settings, serve.Sockets(reverse, None, None, []), None, 0, over)
    )
    working.start()
    with socket.create_connection(place) as silent, socket.create_connection(place) as writing:
        silent.settimeout(PATIENCE_S)
        writing.settimeout(PATIENCE_S)
        silent.sendall(f"GET /storage/v1/b/{bucket}/o HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert silent.recv(65536).startswith(b"HTTP/1.1 200")
        target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name=x"
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        writing.sendall(head.encode())
        assert writing.recv(65536).startswith(b"HTTP/1.1 100")
        over.set()
        until(lambda: reverse.fileno() < 0)
        while silent.recv(65536):
            pass
        working.join(0.3)
        assert working.is_alive(), "it ended amid an upload"
        writing.sendall(b"12345")
        assert writing.recv(65536).startswith(b"HTTP/1.1 200")
    working.join(PATIENCE_S)
    assert not working.is_alive() and store.raw(bucket, "x") == b"12345"


def test_a_store_of_no_address_is_refused(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "runtime.gcs_proxy",
        "--no-encryption",
        "--upstream",
        "storage.googleapis.com",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, "is no address of a store" in done.stderr) == (2, True)
