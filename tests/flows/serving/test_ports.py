"""A port that `slicebench up` cannot have is told, with who has it, before anything starts."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from flows.cli.main import main


def test_a_taken_port_is_told_with_its_holder_and_nothing_is_made(
    clean_environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert main(["up", "--port", str(port)]) == 2
    told = capsys.readouterr().err
    assert f"port {port} on 127.0.0.1 is taken by process {os.getpid()} (" in told
    assert told.endswith("end that, or choose another: slicebench up --port PORT\n")
    assert not (clean_environment / "prefect").exists()
