"""Where a cluster's API server is, whom it is trusted by, and as whom it is asked; makes the connections to it.

An access comes from a context of a kubeconfig that somebody named (`kubernetes_config.by_context`), or from an
endpoint, its authority and something that returns tokens (`by_endpoint`). Neither reads anything else of the user's.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from runtime.contract.errors import BadInput

if TYPE_CHECKING:
    import httpx2
    from google.auth.credentials import Credentials

    from tasks.cloud.timing import Timing

AGENT = "slicebench"
"""How the server's records name us: as user agent and as field manager."""

HEADERS = {"User-Agent": AGENT, "Accept": "application/json"}

CONNECT_S = 10.0
_KEEPALIVE = ((socket.SO_KEEPALIVE, 1),)
_KEEPALIVE_TCP = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
"""Watches and logs may be silent for long: that the other end is gone without a word is noticed after 40 s."""


class Tokens(Protocol):
    """Returns the bearer token to use now. Called from several threads; it may ask a service."""

    def __call__(self, refused: bool) -> str:
        """`refused`: the server did not take the last one, so it has to be another."""


@dataclass(frozen=True)
class Access:
    """How to reach one cluster. `name` is for people: `context kind-1`, `cluster bench of europe-west4`."""

    name: str
    server: str
    namespace: str = "default"
    trust: ssl.SSLContext | None = field(default=None, repr=False)
    """None: as this machine trusts, for https."""
    tokens: Tokens | None = field(default=None, repr=False)
    login: tuple[str, str] | None = field(default=None, repr=False)
    """User and password, which old clusters take."""
    server_name: str = ""
    """The name that the server's certificate has, where it is not that of its address."""
    proxy: str = ""
    """Through which the server is reached; empty: as the environment says."""
    identity: str = ""
    """What tells this cluster from another at its address or of its name, where something does."""
    _clients: dict[int, httpx2.Client] = field(default_factory=dict, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not urlsplit(self.server).hostname:
            raise BadInput(f"{self.name}: {self.server!r} is no address of an API server")
        if (
            (self.tokens or self.login)
            and not self.server.startswith("https://")
            and not _loopback(self.server)
        ):
            raise BadInput(
                f"{self.name}: {self.server} is asked in the clear, and our token would be read by others",
                fix="use its https:// address",
            )

    def client(self) -> httpx2.Client:
        """Returns this process's client: connections do not survive a fork, so a child makes its own."""
        import httpx2

        with self._lock:
            if os.getpid() not in self._clients:
                transport = httpx2.HTTPTransport(
                    verify=self.context() or False, proxy=self.via(), socket_options=socket_options()
                )
                self._clients[os.getpid()] = httpx2.Client(
                    base_url=self.server, auth=self._auth(), transport=transport, headers=HEADERS
                )
            return self._clients[os.getpid()]

    def timeout(self, timing: Timing) -> httpx2.Timeout:
        """Returns the limits of one try of a call."""
        import httpx2

        return httpx2.Timeout(timing.try_s, connect=min(CONNECT_S, timing.try_s))

    @property
    def extensions(self) -> dict[str, str]:
        """What goes with every request."""
        return {"sni_hostname": self.server_name} if self.server_name else {}

    def context(self) -> ssl.SSLContext | None:
        """Returns whom the server is trusted by; None where it is spoken to in the clear."""
        if not self.server.startswith("https://"):
            return None
        return self.trust or ssl.create_default_context()

    def via(self) -> str | None:
        """Returns the proxy to go through."""
        return self.proxy or _environment_proxy(self.server)

    def _auth(self) -> httpx2.Auth | None:
        import httpx2

        if self.tokens is not None:
            return _bearer(self.tokens)
        return httpx2.BasicAuth(*self.login) if self.login else None


def by_endpoint(
    name: str,
    endpoint: str,
    authority: str | None,
    tokens: Tokens,
    namespace: str = "default",
    *,
    identity: str = "",
) -> Access:
    """Returns the access to an API server by its address (`1.2.3.4` or a URL) and authority (certificates as PEM; None:
    one that everybody trusts, as GKE's DNS endpoints have).
    """
    server = endpoint if "://" in endpoint else f"https://{endpoint}"
    try:
        trust = ssl.create_default_context(cadata=authority) if authority else None
    except ssl.SSLError as error:
        raise BadInput(f"{name}: the certificate of its authority cannot be read: {error}") from error
    return Access(name, server, namespace, trust, tokens, identity=identity)


class GoogleTokens:
    """Tokens of the user's Google login (application default credentials), renewed before they expire."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None

    def __call__(self, refused: bool) -> str:
        """Raises PermissionDenied where there are no credentials, or none that can be renewed."""
        from google.auth.exceptions import GoogleAuthError

        from tasks.cloud.google_login import google_login, renew
        from tasks.cloud.kubernetes_errors import Nobody

        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials = google_login()
                if refused or not self._credentials.valid:
                    renew(self._credentials)
            except GoogleAuthError as error:
                raise Nobody(
                    f"there are no Google credentials here that are taken ({error}): "
                    "gcloud auth application-default login"
                ) from error
            return str(self._credentials.token)


def _bearer(tokens: Tokens) -> httpx2.Auth:
    import httpx2

    class Bearer(httpx2.Auth):
        """Puts the token into each request, and another one when the server does not take it."""

        def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            request.headers["Authorization"] = f"Bearer {tokens(False)}"
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = f"Bearer {tokens(True)}"
                yield request

    return Bearer()


def socket_options() -> list[tuple[int, int, int]]:
    """Returns options by which the system finds out that nobody is at the other end any more."""
    options = [(socket.SOL_SOCKET, *one) for one in _KEEPALIVE]
    for name, value in _KEEPALIVE_TCP:
        if hasattr(socket, name):  # macOS calls the first one otherwise
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def _loopback(server: str) -> bool:
    import ipaddress

    host = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _environment_proxy(server: str) -> str | None:
    """Returns the proxy that the environment names for a server; none for this machine, and where NO_PROXY says so."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None  # as most are; the import takes a while
    import urllib.request

    parts = urlsplit(server)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or _loopback(server) or urllib.request.proxy_bypass(host):
        return None
    return None if _within(host, proxies.get("no", "")) else proxy


def _within(host: str, networks: str) -> bool:
    """Whether a host is an address within one of the networks (`10.0.0.0/8, …`) that NO_PROXY may list."""
    import ipaddress

    for network in networks.split(","):
        try:
            if "/" in network and ipaddress.ip_address(host) in ipaddress.ip_network(
                network.strip(), strict=False
            ):
                return True
        except ValueError:
            continue
    return False
