"""Ports on loopback: who has one that is asked for."""

from __future__ import annotations

import errno
import socket

import psutil

from flows.serving.settings import HOST
from runtime.contract.errors import BadInput


def refuse_taken_port(port: int) -> None:
    """Raises BadInput, saying who has it, when the port is taken or may not be had."""
    with socket.socket() as probe:
        # As the server itself binds: a port that only lingers from the last server is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            raise BadInput(
                f"port {port} on {HOST} is taken by {_holder_of(port)}"
                if taken
                else f"port {port} on {HOST} cannot be had: {(error.strerror or str(error)).lower()}",
                fix=f"{'end that, or ' if taken else ''}choose another: slicebench up --port PORT",
            ) from error


def _holder_of(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN and bool(connection.pid)
            if listens and connection.laddr and connection.laddr.port == port:
                command = " ".join(psutil.Process(connection.pid).cmdline())[:100]
                return f"process {connection.pid} ({command})"
    except psutil.Error:  # another user's process does not tell
        pass
    return "another process"
