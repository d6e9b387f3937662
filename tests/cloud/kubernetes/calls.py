"""What a request means: its path as verb, kind, namespace, name and subresource; its query as options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from tests.cloud.kubernetes.refusals import Refused
from tests.cloud.kubernetes.resources import Registry, Resource
from tests.cloud.kubernetes.selectors import Test, by_fields, by_labels
from tests.cloud.kubernetes.store import Key

_SUBRESOURCES = {"status", "log", "eviction", "binding", "scale", "token", "finalize"}


@dataclass(frozen=True)
class Call:
    """A request to a kind."""

    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection; `log` for a pod's log."""
    resource: Resource
    version: str
    namespace: str
    name: str
    sub: str
    query: dict[str, str]
    content: str
    """The media type of the body."""

    @property
    def key(self) -> Key:
        """The object that is meant."""
        return (self.resource.qualified, self.namespace, self.name)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be written."""
        asked = self.query.get("dryRun")
        if asked not in (None, "", "All"):
            raise Refused(400, f'invalid dry run option: "{asked}"')
        return asked == "All"

    def flag(self, name: str) -> bool:
        """Says whether an option is on."""
        return self.query.get(name, "") in ("true", "1", "True")

    def number(self, name: str) -> int | None:
        """Returns an option that is a number."""
        text = self.query.get(name)
        try:
            return int(text) if text else None
        except ValueError:
            raise Refused(400, f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def since(self, newest: int) -> int | None:
        """Returns the resource version that a list or watch is to be at least as new as; None: any, or the newest."""
        text, how = self.query.get("resourceVersion", ""), self.query.get("resourceVersionMatch", "")
        if how and not text:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise Refused(
                422, f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {why}'
            )
        if text in ("", "0"):
            return None
        if not text.isdigit():
            why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
            if self.verb == "watch":
                raise Refused(500, why, reason=None)
            raise Refused(400, f"invalid resource version: {why}")
        if int(text) > newest and self.verb == "list":
            causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
            told = f"Timeout: Too large resource version: {text}, current: {newest}"
            raise Refused(504, told, details={"causes": causes, "retryAfterSeconds": 1})
        return int(text)

    def selection(self) -> Test:
        """Returns the test that objects must pass to be listed or watched."""
        labels = by_labels(self.query.get("labelSelector", ""))
        fields = by_fields(self.query.get("fieldSelector", ""), self.resource.qualified)
        space, name = self.namespace, self.name

        def selected(obj: dict[str, Any]) -> bool:
            meta = obj["metadata"]
            if (space and meta.get("namespace") != space) or (name and meta["name"] != name):
                return False
            return labels(obj) and fields(obj)

        return selected


def parse(request: Request, registry: Registry) -> Call | None:
    """Returns what a request asks for; None where the path names no kind."""
    parts = [part for part in request.url.path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    resource = registry.at(group, version, plural)
    if resource is None or len(rest) > 3 or (sub and sub not in _SUBRESOURCES):
        if any(one.group == group for one in registry.all):
            raise Refused(404, "the server could not find the requested resource")
        return None
    query = dict(request.query_params)
    verb = _verb(request.method, name, sub, query)
    content = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if verb == "create" and resource.namespaced and not namespace:
        raise Refused(405, "the server does not allow this method on the requested resource")
    return Call(verb, resource, version, namespace, name, sub, query, content)


def _verb(method: str, name: str, sub: str, query: dict[str, str]) -> str:
    if sub == "log":
        return "log"
    if method == "GET":
        if query.get("watch") in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, "")
    if not verb or (verb == "create" and name and sub not in ("eviction", "binding", "token")):
        raise Refused(405, "the server does not allow this method on the requested resource")
    return verb
