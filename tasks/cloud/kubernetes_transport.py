"""The seam to an API server: one request and its answer, how often it is tried, and what its failures become."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tasks.cloud import waits
from tasks.cloud.calls import UNANSWERED, Call, calling
from tasks.cloud.kubernetes_errors import (
    KubernetesError,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
    Untrusted,
    error_for,
    shortened,
    told_by,
)
from tasks.cloud.timing import Timing, uneven

if TYPE_CHECKING:
    import httpx2

    from tasks.cloud.kubernetes_access import Access

JSON = "application/json"
Answer = TypeVar("Answer")
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Ask(NamedTuple):
    """One request. `doing` completes "cannot …"; `body` is sent as JSON, `content` says what JSON it is."""

    doing: str
    method: str
    path: str
    params: Mapping[str, str | int | bool] | None = None
    body: Mapping[str, Any] | None = None
    content: str = JSON


class Wire:
    """Makes requests to one cluster, each within its time; raises KubernetesError, never the library's errors."""

    def __init__(self, access: Access, timing: Timing) -> None:
        self.access, self.timing = access, timing
        self._heard: tuple[str, float] | None = None

    def once(self, ask: Ask) -> Any:
        """Makes a request once and returns its answer's JSON. What Unavailable means for it, the caller must know."""
        return _decoded(self._send(ask), ask, self.access.name)

    def repeated(self, ask: Ask) -> Any:
        """Makes a request that may be made twice, as often as it takes; heeds how long the server asks to be left."""
        return self._persistently(ask, lambda: self.once(ask))

    def text(self, ask: Ask) -> str:
        """Returns an answer that is text: a log."""
        return self._persistently(ask, lambda: self._send(ask)).decode(errors="replace")

    def heard(self, date: str | None) -> None:
        """Takes what time an answer says it is, if it does: only that compares with the times in objects."""
        if date:
            self._heard = date, time.time()

    @property
    def ahead_s(self) -> float:
        """How much later it is by the server's clock than by ours, by its last answer; to about a second."""
        if self._heard is None:
            return 0.0
        from email.utils import mktime_tz, parsedate_tz  # here: who only submits does without

        told = parsedate_tz(self._heard[0])
        return mktime_tz(told) - self._heard[1] if told is not None else 0.0

    def called(self, ask: Ask) -> str:
        """Returns what people are told of a request."""
        return f"{ask.doing} ({self.access.name})"

    def _persistently(self, ask: Ask, attempt: Callable[[], Answer]) -> Answer:
        """Repeats what raises Unavailable until it does not, or `total_s` is over."""
        deadline, pause = time.monotonic() + self.timing.total_s, self.timing.first_pause_s
        with waits.waiting(f"kubernetes: {self.called(ask)}", self.timing.longest_s):
            while True:
                try:
                    return attempt()
                except Unavailable as error:
                    wait = waiting(error, pause)
                    if time.monotonic() + wait > deadline:
                        raise
                    waits.tried(str(error))
                    time.sleep(wait)
                    pause = min(2 * pause, self.timing.longest_pause_s)

    def _send(self, ask: Ask) -> bytes:
        with (
            calling("kubernetes", self.called(ask), self.timing.try_s) as call,
            translated(ask.doing, self.access),
        ):
            client = self.access.client()
            request = client.build_request(
                ask.method,
                ask.path,
                params=ask.params,
                content=None if ask.body is None else json.dumps(without_nulls(ask)).encode(),
                headers=None if ask.body is None else {"Content-Type": ask.content},
                timeout=self.access.timeout(self.timing),
                extensions=self.access.extensions,
            )
            answer = client.send(request)
            _tell(answer, call)
            self.heard(answer.headers.get("Date"))
            if answer.is_success:
                return answer.content
        raise refusal(answer.status_code, answer.content, answer.headers, ask.doing, self.access)


def waiting(error: KubernetesError, pause: float) -> float:
    """Returns how long to wait before the next try, seconds: not all at once, and not before the server wants it."""
    return max(error.after_s or 0.0, uneven(pause))


def without_nulls(ask: Ask) -> Any:
    """Returns the body to send. Server-side apply refuses a key without a value; in a merge patch it means: remove."""
    return ask.body if ask.content == MERGE_PATCH else _pruned(ask.body)


def _pruned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _pruned(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_pruned(inner) for inner in value]
    return value


def refusal(
    code: int, body: bytes, headers: Mapping[str, str], doing: str, access: Access
) -> KubernetesError:
    """Returns the error that an answer with an error's status stands for."""
    return error_for(told_by(code, body, headers.get("retry-after")), doing, access.name)


@contextmanager
def translated(doing: str, access: Access) -> Iterator[None]:
    """Turns the library's errors into ours."""
    import httpx2

    try:
        yield
    except httpx2.TransportError as error:
        raise lost(error, doing, access) from error
    except (httpx2.InvalidURL, httpx2.DecodingError) as error:
        raise Refused(f"cannot {doing} in {access.name}: {error}") from error


def lost(error: httpx2.TransportError, doing: str, access: Access) -> KubernetesError:
    """Returns our error for a connection that failed. What happened to the request is known only if none came about."""
    import httpx2

    what = f"cannot {doing} in {access.name} ({access.server}): "
    if found := untrusted(error, what):
        return found
    words = str(error) or type(error).__name__
    if isinstance(
        error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError
    ):
        return Unreachable(
            f"{what}no connection ({shortened(words)}): is the cluster up, and reachable from here?"
        )
    if isinstance(error, httpx2.TimeoutException):
        return Unavailable(f"{what}no answer in time ({type(error).__name__}); {UNANSWERED}")
    return Unavailable(f"{what}the connection broke ({shortened(words)}); {UNANSWERED}")


def untrusted(error: BaseException, what: str) -> Untrusted | None:
    """Returns the error for a connection that failed over a certificate; None where that was not it."""
    if certificate := _certificate(error):
        return Untrusted(
            f"{what}{certificate}: the cluster was made anew, or this is another one; get its kubeconfig again"
        )
    return None


def _certificate(error: BaseException) -> str:
    """Returns what TLS found wrong with a certificate, ours or theirs; empty where that was not it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({seen.verify_message})"
        if isinstance(seen, ssl.SSLError) and "ALERT" in (seen.reason or ""):
            return f"it does not take our certificate ({(seen.reason or '').lower().replace('_', ' ')})"
        seen = seen.__cause__ or seen.__context__
    text = str(error)
    return f"its certificate is not trusted ({text})" if "CERTIFICATE_VERIFY_FAILED" in text else ""


def _tell(answer: httpx2.Response, call: Call) -> None:
    call.result = str(answer.status_code)
    if warnings := answer.headers.get_list("Warning"):
        call.result += f", warning: {shortened('; '.join(warnings))}"


def _decoded(body: bytes, ask: Ask, where: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Unavailable(
            f"cannot {ask.doing} in {where}: the answer is no JSON: {shortened(repr(body[:100]))}"
        ) from error


def unless_missing(look: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns what is there, or None."""
    try:
        return look()
    except NotFound:
        return None
