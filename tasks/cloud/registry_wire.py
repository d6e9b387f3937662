"""One request to a registry: by TLS or on this machine only, with a token when it asks for one, again while it may."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from tasks.cloud.calls import calling
from tasks.cloud.image_names import ImageName
from tasks.cloud.registry_errors import (
    Denied,
    Nameless,
    RegistryError,
    Throttled,
    Unavailable,
    error_for,
    is_google,
)
from tasks.cloud.registry_login import Login, login_for
from tasks.cloud.timing import Timing, pauses
from tasks.cloud.waits import tried

if TYPE_CHECKING:
    import httpx

Body = Callable[[], Iterator[bytes]]
"""Makes a body anew: a request may have to be sent twice."""

_LONGEST_ANSWER = 8 << 20
"""Bytes of an answer that is taken into memory: manifests are limited to 4 MiB by the registries themselves."""
_CONNECT_S = 10.0
_LONGEST_WAIT_S = 60.0
_NAMELESS_S = 8.0
"""A name that nobody knows is mostly a wrong one; a resolver that is just busy answers within that."""
_PATIENT = Timing(try_s=60.0)
"""Registries may take long to hash what they were sent."""
_CHALLENGE = re.compile(r'([A-Za-z_]+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Answer:
    """What came back. Header names are in small letters. `url`: where it was found in the end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class Wire:
    """Speaks to registries. Threads may share one; so do all repositories of a registry, tokens included."""

    def __init__(
        self,
        timing: Timing | None = None,
        *,
        login: Callable[[ImageName], Login | None] = login_for,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.timing = timing or _PATIENT
        self.pause = pause
        self._login = login
        self._clients: dict[bool, httpx.Client] = {}
        self._making = threading.Lock()
        self._logins: dict[str, Login | None] = {}
        self._tokens: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def url(self, name: ImageName, rest: str) -> str:
        """Returns the address of something of a repository."""
        return f"{'http' if name.loopback else 'https'}://{name.endpoint}/v2/{name.path}/{rest}"

    def ask(
        self,
        name: ImageName,
        method: str,
        url: str,
        *,
        scope: str = "pull",
        headers: Mapping[str, str] | None = None,
        body: bytes | Body | None = None,
        again: bool = True,
    ) -> Answer:
        """Sends a request and returns a good answer. `again`: it may be repeated although it may have happened.

        `scope`: what a token must allow on the repository. Raises RegistryError.
        """
        nameless_until = time.monotonic() + _NAMELESS_S
        for pause in pauses(self.timing, f"registry: {method} {_shown(url)}"):
            try:
                with self.sending(name, method, url, scope, headers or {}, body) as response:
                    return Answer(response.status_code, _plain(response), _read(response), str(response.url))
            except Unavailable as error:
                if pause is None or not (again or isinstance(error, (Throttled, Nameless))):
                    raise
                left_s = nameless_until - time.monotonic() if isinstance(error, Nameless) else math.inf
                if pause > left_s:
                    raise
                tried(str(error), left_s)
                self.pause(pause if error.wait_s is None else error.wait_s)
        raise AssertionError("unreachable")

    @contextmanager
    def sending(
        self,
        name: ImageName,
        method: str,
        url: str,
        scope: str,
        headers: Mapping[str, str],
        body: bytes | Body | None = None,
    ) -> Iterator[httpx.Response]:
        """Sends a request once, twice where a token is wanted; yields a good answer, its body not yet read."""
        import httpx

        doing = f"{method} {_shown(url)}"
        try:
            with calling("registry", doing) as call:
                response = self._send(name, method, url, headers, body, self._known(name, scope))
                if response.status_code == 401:
                    challenge = response.headers.get("www-authenticate", "")
                    response.close()
                    given = self._answer_to(challenge, name, scope)
                    response = self._send(name, method, url, headers, body, given)
                call.result = str(response.status_code)
            try:
                if response.is_error:
                    raise _failure(response, name, doing)
                yield response
            finally:
                response.close()
        except httpx.InvalidURL as error:
            raise RegistryError(f"cannot {doing}: {error}") from error
        except httpx.HTTPError as error:
            told = str(error) or type(error).__name__
            kind = Nameless if is_nameless(error) else Unavailable
            raise kind(f"cannot {doing}: {told}; is {name.host} the right registry?") from error

    def _send(
        self,
        name: ImageName,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Body | None,
        given: str | None,
    ) -> httpx.Response:
        sent = dict(headers)
        if given and urlsplit(url).netloc == name.endpoint:  # an upload may be wanted by somebody else's host
            sent["Authorization"] = given
        client = self._client(name.loopback)
        content = body() if callable(body) else body
        request = client.build_request(method, url, headers=sent, content=content)
        return client.send(request, stream=True, follow_redirects=method in ("GET", "HEAD"))

    def _client(self, loopback: bool) -> httpx.Client:
        import httpx

        with self._making:
            if loopback in self._clients:
                return self._clients[loopback]
            limits = httpx.Timeout(self.timing.try_s, connect=_CONNECT_S)
            agent = {"User-Agent": "slicebench"}
            # No proxy stands between us and ourselves.
            self._clients[loopback] = httpx.Client(timeout=limits, headers=agent, trust_env=not loopback)
        return self._clients[loopback]

    def _known(self, name: ImageName, scope: str) -> str | None:
        return self._tokens.get((name.endpoint, _scope(name, scope)))

    def _answer_to(self, challenge: str, name: ImageName, scope: str) -> str:
        """Returns the Authorization that a registry asks for. Raises Denied where we have none."""
        kind, _, rest = challenge.partition(" ")
        if name.endpoint not in self._logins:
            self._logins[name.endpoint] = self._login(name)
        login = self._logins[name.endpoint]
        match kind.lower():
            case "basic" if login is not None:
                given = login.basic
            case "bearer":
                given = f"Bearer {self._token(dict(_CHALLENGE.findall(rest)), name, scope, login)}"
            case _:
                raise error_for(401, b"", name, f"use {name.repository}")
        self._tokens[name.endpoint, _scope(name, scope)] = given
        return given

    def _token(self, wanted: Mapping[str, str], name: ImageName, scope: str, login: Login | None) -> str:
        realm = wanted.get("realm", "")
        parts = urlsplit(realm)
        safe = parts.scheme == "https" or (name.loopback and parts.scheme == "http")
        if not safe or (is_google(name.host) and parts.hostname != name.host):
            raise Denied(
                f"{name.host} sends us to {realm or 'nowhere'} for a token, where no password is sent"
            )
        asked: dict[str, str | list[str]] = {"scope": _scope(name, scope).split()}
        if "service" in wanted:
            asked["service"] = wanted["service"]
        headers = {"Authorization": login.basic} if login is not None else {}
        doing = f"GET {_shown(realm)} ({_scope(name, scope)})"
        for pause in pauses(self.timing, f"registry: {doing}"):
            with calling("registry", doing, self.timing.try_s) as call:
                response = self._client(name.loopback).get(realm, params=asked, headers=headers)
                call.result = str(response.status_code)
            if not response.is_error:
                return _token_in(response, realm)
            error = error_for(
                response.status_code, response.content, name, f"get a token for {name.repository}"
            )
            if pause is None or not isinstance(error, Unavailable):
                raise error
            self.pause(pause)
        raise AssertionError("unreachable")


def is_nameless(error: BaseException | None) -> bool:
    """Whether all that failed is that a host's name stands for no address."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return True
        error = error.__cause__ or error.__context__
    return False


def next_url(answer: Answer) -> str:
    """Returns where an upload goes on; a registry may say so relative to where we asked."""
    return urljoin(answer.url, answer.headers.get("location", ""))


def _scope(name: ImageName, scope: str) -> str:
    """Returns scopes as tokens have them; `scope` is actions, and after a space a repository to mount from."""
    actions, _, source = scope.partition(" ")
    more = f" repository:{source}:pull" if source else ""
    return f"repository:{name.path}:{actions}{more}"


def _token_in(response: httpx.Response, realm: str) -> str:
    try:
        content: Any = response.json()
        token = content.get("token") or content.get("access_token")
    except (ValueError, AttributeError):
        token = None
    if not isinstance(token, str):
        raise RegistryError(f"{realm} answered without a token")
    return token


def _failure(response: httpx.Response, name: ImageName, doing: str) -> RegistryError:
    error = error_for(response.status_code, _read(response), name, doing)
    asked = response.headers.get("retry-after", "")
    if isinstance(error, Unavailable) and asked.isdigit():
        error.wait_s = min(float(asked), _LONGEST_WAIT_S)
    return error


def _read(response: httpx.Response) -> bytes:
    total = bytearray()
    for piece in response.iter_bytes():
        total += piece
        if len(total) > _LONGEST_ANSWER:
            raise RegistryError(f"{response.url.host} answers with more than {_LONGEST_ANSWER} bytes")
    return bytes(total)


def _plain(response: httpx.Response) -> dict[str, str]:
    return {key.lower(): value for key, value in response.headers.items()}


def _shown(url: str) -> str:
    """Returns an address without its query, which in uploads is a page of state, and may be a signature."""
    return url.partition("?")[0]
