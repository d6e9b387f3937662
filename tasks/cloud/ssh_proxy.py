"""A connection by way of a command whose input and output are the connection, as ssh's ProxyCommand has it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator

from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import Unreachable

_LAST_WORDS_S = 2.0


@contextlib.contextmanager
def through_command(endpoint: Endpoint) -> Iterator[socket.socket]:
    """Starts the endpoint's command and gives the socket that is its other end. The command ends with the socket.

    Unreachable that is raised within is raised again with what the command said last; then the socket is closed.
    """
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as said:
        try:
            child = subprocess.Popen(
                list(endpoint.proxy),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=said,
                start_new_session=True,  # an interrupt at the terminal must not cut teardown off
            )
        except OSError as error:
            ours.close()
            what = f"{endpoint.proxy[0]} cannot be run: {error.strerror}"
            raise Unreachable(str(endpoint), "unreachable", what) from error
        finally:
            theirs.close()
        threading.Thread(target=child.wait, name="proxy command", daemon=True).start()
        try:
            yield ours
        except Unreachable as error:
            ours.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LAST_WORDS_S)
            said.seek(0)
            words = " ".join(said.read().decode(errors="replace").split())[-400:]
            if not words:
                raise
            what = f"{error.what}; {endpoint.proxy[0]} said: {words}"
            raise Unreachable(error.host, error.reason, what, error.fix) from error
