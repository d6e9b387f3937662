"""Dials one host: a socket that notices a dead peer, the host's key verified, our keys offered one by one."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tasks.cloud.ssh_endpoint import Endpoint
from tasks.cloud.ssh_errors import NotAdmitted, SshError, Unreachable
from tasks.cloud.ssh_paramiko import UnknownKeyType, paramiko
from tasks.cloud.ssh_proxy import through_command
from tasks.cloud.ssh_trust import algorithms, expected_keys, verify

# Paramiko logs each failed try with a traceback; the errors raised here say it better.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)

_DEAD_PEER_MS = 20_000
_PROXY_S = 30.0
"""Commands to connect through, such as gcloud, take seconds to start."""
_DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")


class _Transport(paramiko.Transport):
    """A transport that costs less: its thread looks twenty times less often whether it is still wanted, and what
    sshd says for debugging is not read.
    """

    _active_check_timeout = 2.0

    def _parse_debug(self, message: paramiko.Message) -> None:
        """Leaves it unread: paramiko takes it apart byte by byte, for a log that nobody sees."""

    def stop_thread(self) -> None:
        """Ends the thread at once: it sleeps in the socket."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        super().stop_thread()


def dial(
    endpoint: Endpoint, connect_s: float, through: paramiko.Transport | None = None
) -> paramiko.Transport:
    """Returns an authenticated transport; each step may take `connect_s` seconds. Raises SshError.

    `through` is the open transport of the jump host.
    """
    expected = expected_keys(endpoint)
    if endpoint.proxy:
        with through_command(endpoint) as link:
            return _greet(endpoint, max(connect_s, _PROXY_S), link, expected)
    with _as_unreachable(endpoint, connect_s):
        way = _open_socket(endpoint, connect_s) if through is None else _tunnel(endpoint, connect_s, through)
    return _greet(endpoint, connect_s, way, expected)


def _greet(
    endpoint: Endpoint,
    connect_s: float,
    link: socket.socket | paramiko.Channel,
    expected: tuple[paramiko.PKey, ...],
) -> paramiko.Transport:
    """Turns a connection into a transport: both sides prove who they are."""
    with _as_unreachable(endpoint, connect_s):
        transport = _Transport(link)
    try:
        with _as_unreachable(endpoint, connect_s):
            transport.banner_timeout = transport.auth_timeout = transport.handshake_timeout = connect_s
            transport.daemon = True
            options = transport.get_security_options()
            options.key_types = algorithms(expected, tuple(options.key_types))
            # With others, paramiko compares the codes of messages byte by byte in Python.
            options.ciphers = sorted(options.ciphers, key=lambda name: "gcm" not in name)
            transport.set_keepalive(10)
            _negotiate(transport, connect_s)
            verify(endpoint, expected, transport.get_remote_server_key())
            _authenticate(endpoint, transport)
    except BaseException:
        transport.close()
        raise
    return transport


def _negotiate(transport: paramiko.Transport, connect_s: float) -> None:
    """Agrees on keys. Paramiko's own waiting looks ten times a second, which many dials at once feel."""
    agreed = threading.Event()
    transport.start_client(event=agreed)
    if not agreed.wait(connect_s):
        raise TimeoutError
    error = transport.get_exception()
    if error is not None:
        raise error
    if not transport.initial_kex_done:
        raise paramiko.SSHException("it hung up")


def _open_socket(endpoint: Endpoint, connect_s: float) -> socket.socket:
    link = socket.create_connection((endpoint.address, endpoint.port), timeout=connect_s)
    # A host that lost power sends nothing any more; without these its connection would stand for hours.
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_PEER_MS)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _tunnel(endpoint: Endpoint, connect_s: float, through: paramiko.Transport) -> paramiko.Channel:
    try:
        target = (endpoint.address, endpoint.port)
        return through.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=connect_s)
    except paramiko.ChannelException as error:
        raise Unreachable(
            str(endpoint),
            "refused",
            f"its jump host {endpoint.jump} does not get through to it: {error.text or error}",
            "see that it may forward (AllowTcpForwarding) and that address and port are right from there",
        ) from error


@contextlib.contextmanager
def _as_unreachable(endpoint: Endpoint, connect_s: float) -> Iterator[None]:
    """Turns what sockets and paramiko raise while dialling into Unreachable with its reason."""
    name = str(endpoint)
    try:
        yield
    except SshError:
        raise
    except socket.gaierror as error:
        raise Unreachable(name, "no_such_name", f"its name cannot be resolved: {error.strerror}") from error
    except TimeoutError as error:
        what = f"no answer within {connect_s:g} s"
        raise Unreachable(name, "timeout", what, "is it up, and does a firewall let port through?") from error
    except ConnectionRefusedError as error:
        what = "nothing listens there"
        raise Unreachable(name, "refused", what, "is sshd running, and is the port right?") from error
    except OSError as error:
        raise Unreachable(name, "unreachable", error.strerror or str(error)) from error
    except (paramiko.SSHException, EOFError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        if "banner" in told.lower():
            what = f"it does not greet as an SSH server does ({told})"
            fix = "it may be at its limit of new connections (MaxStartups in its sshd_config)"
            raise Unreachable(name, "no_banner", what, fix) from error
        raise Unreachable(name, "lost", f"the connection broke while it was made: {told}") from error


def _authenticate(endpoint: Endpoint, transport: paramiko.Transport) -> None:
    tried: list[str] = []
    for name, key in _offered(endpoint):
        tried.append(name)
        try:
            if not transport.auth_publickey(endpoint.user, key):
                return
            tried[-1] += " (accepted, but the host wants more than a key)"
        except paramiko.BadAuthenticationType as error:
            raise NotAdmitted(
                str(endpoint),
                "public_key_denied",
                f"it takes no keys, only {', '.join(error.allowed_types)}",
                "allow PubkeyAuthentication in its sshd_config",
            ) from error
        except paramiko.AuthenticationException as error:
            if not transport.is_active():
                raise NotAdmitted(
                    str(endpoint), "public_key_denied", f"it hung up after {len(tried)} keys", "name one key"
                ) from error
    if not tried:
        raise NotAdmitted(
            str(endpoint),
            "agent_refused" if endpoint.agent else "public_key_denied",
            "the SSH agent has no key" if endpoint.agent else "there is no key to offer",
            "load one: ssh-add KEY" if endpoint.agent else "name one with key: in the target file",
        )
    raise NotAdmitted(
        str(endpoint),
        "public_key_denied",
        f"permission denied (publickey) for user {endpoint.user}; offered: {', '.join(tried)}",
        f"put the public key into ~{endpoint.user}/.ssh/authorized_keys there, or name another key or user",
    )


def _offered(endpoint: Endpoint) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yields the keys that were asked for, each with its name: files first, then the agent's, then ~/.ssh's."""
    for file in endpoint.keys:
        yield file, _private_key(str(endpoint), file)
    if endpoint.agent:
        yield from _agent_keys(endpoint)
    if endpoint.default_keys:
        for file in _DEFAULT_KEYS:
            if Path(file).expanduser().is_file():
                yield file, _private_key(str(endpoint), file)


def _agent_keys(endpoint: Endpoint) -> Iterator[tuple[str, paramiko.PKey]]:
    try:
        agent = paramiko.Agent()
    except (paramiko.SSHException, OSError) as error:
        fix = "is SSH_AUTH_SOCK right?"
        raise NotAdmitted(
            str(endpoint), "agent_refused", f"the SSH agent does not answer: {error}", fix
        ) from error
    try:
        for key in agent.get_keys():
            yield f"agent's {getattr(key, 'comment', '') or key.get_name()}", key
    finally:
        agent.close()


def _private_key(host: str, file: str) -> paramiko.PKey:
    path = Path(file).expanduser()
    try:
        return _load(path, path.stat().st_mtime_ns)
    except (paramiko.PasswordRequiredException, TypeError) as error:
        what, fix = f"the key {file} is encrypted", "load it into an agent (ssh-add) and write agent: true"
        raise NotAdmitted(host, "key_unreadable", what, fix) from error
    except OSError as error:
        what = f"the key {file} cannot be read: {error.strerror}"
        raise NotAdmitted(host, "key_unreadable", what, "correct key: in the target file") from error
    except (paramiko.SSHException, UnknownKeyType, ValueError) as error:
        raise NotAdmitted(host, "key_unreadable", f"{file} is no private key: {error}") from error


@lru_cache(maxsize=64)
def _load(path: Path, changed_at: int) -> paramiko.PKey:
    """Reads a key once for all hosts; `changed_at` is when its file was written."""
    del changed_at
    return paramiko.PKey.from_path(path)
