"""Cloud Storage: buckets with policies, objects by generation; and Artifact Registry, Vertex AI, Service Usage."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Any
from urllib.parse import unquote

from tests.cloud.project.call import Call
from tests.cloud.project.memory import Refused, World, allowed, bad, begun, exists, is_done, missing, number
from tests.cloud.project.policies import policy, set_policy

_BUCKET = re.compile(r"storage/v1/b/(?P<bucket>[^/]+)(/(?P<part>iam|storageLayout))?")
_OBJECT = re.compile(r"(download/|upload/)?storage/v1/b/(?P<bucket>[^/]+)/o(/(?P<name>.+))?")
_REPOSITORY = re.compile(
    r"v1/projects/(?P<project>[^/]+)/locations/(?P<place>[^/]+)/repositories(/(?P<name>[^/]+))?"
)
_BOARD = re.compile(
    r"v1/projects/(?P<project>[^/]+)/locations/(?P<place>[^/]+)/tensorboards(/(?P<name>[^/]+))?"
)
_SERVICE = re.compile(r"v1/projects/(?P<project>[^/]+)/services(/(?P<name>[^/:]+))?(:(?P<verb>\w+))?")

Reply = dict[str, Any] | bytes


def method_of(host: str, verb: str, path: str) -> str:
    """Returns the name of a call, as the log and the faults have it."""
    words = {"GET": "Get", "POST": "Create", "PATCH": "Patch", "DELETE": "Delete", "PUT": "Put"}
    if "/operations/" in path:
        return "GetOperationOfProject"
    if host.startswith("serviceusage"):
        return {"GET": "ListServices", "POST": "EnableServices"}[verb]
    if host.startswith("artifactregistry"):
        return f"{words[verb]}Repository"
    if "aiplatform" in host:
        return f"{words[verb]}Tensorboard"
    if _OBJECT.fullmatch(path):
        return f"{words[verb]}Object"
    match = _BUCKET.fullmatch(path)
    if match and match["part"] == "iam":
        return {"GET": "GetBucketPolicy", "PUT": "SetBucketPolicy"}[verb]
    return f"{words[verb]}Bucket"


def of_storage(world: World, call: Call) -> Reply:
    """Answers for Cloud Storage."""
    verb, body = call.verb, call.body
    if call.path == "storage/v1/b":
        allowed(world, "storage.buckets.create", call.query.get("project", ""))
        return _make_bucket(world, call.query.get("project", ""), body)
    if match := _OBJECT.fullmatch(call.path):
        return _object(world, call, match["bucket"], unquote(match["name"] or ""))
    match = _BUCKET.fullmatch(call.path)
    if match is None:
        raise missing(call.path)
    name = match["bucket"]
    bucket = _found(world, name)
    if match["part"] == "storageLayout":
        allowed(world, "storage.objects.list", name)
        return {"bucket": name, "location": bucket["location"], "locationType": "region"}
    if match["part"] == "iam":
        if verb == "GET":
            return policy(world, f"gs://{name}")
        allowed(world, "storage.buckets.setIamPolicy", name)
        return set_policy(world, f"gs://{name}", body)
    if verb == "PATCH":
        allowed(world, "storage.buckets.update", name)
        if "location" in body:
            raise bad("The location of a bucket cannot be changed.")
        _merge(bucket, body)
    if verb == "DELETE":
        allowed(world, "storage.buckets.delete", name)
        if any(key.startswith(f"{name}/") for key in world["project"]["objects"]):
            raise Refused(409, "ABORTED", "The bucket you tried to delete is not empty.", "conflict")
        gone = world["project"]["buckets"].pop(name)
        world["project"]["gone_buckets"][f"{name}#{gone['generation']}"] = gone
        world["project"]["policies"].pop(f"gs://{name}", None)
        return {}
    if verb == "GET":
        allowed(world, "storage.buckets.get", name)
    return bucket


def _found(world: World, name: str) -> dict[str, Any]:
    if name in world["settings"]["taken_buckets"]:
        raise Refused(
            403,
            "PERMISSION_DENIED",
            f"caller does not have storage.buckets.get access to {name}.",
            "forbidden",
        )
    found: dict[str, Any] | None = world["project"]["buckets"].get(name)
    if found is None:
        raise Refused(404, "NOT_FOUND", "The specified bucket does not exist.", "notFound")
    return found


def _make_bucket(world: World, project: str, body: dict[str, Any]) -> dict[str, Any]:
    name = body.get("name", "")
    if name in world["settings"]["taken_buckets"]:
        words = "The requested bucket name is not available. The bucket namespace is shared by all users of the system."
        raise Refused(409, "ALREADY_EXISTS", words, "conflict")
    if name in world["project"]["buckets"]:
        raise Refused(
            409,
            "ALREADY_EXISTS",
            "Your previous request to create the named bucket succeeded and you already own it.",
        )
    if project not in world["settings"]["projects"]:
        raise Refused(404, "NOT_FOUND", f"Unknown project id: {project}")
    for key, value in body.get("labels", {}).items():
        if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(r"[-_a-z0-9]{0,63}", value):
            raise bad(f"Invalid label {key}: {value}")
    usual = {"location": "US", "storageClass": "STANDARD", "labels": {}, "versioning": {"enabled": False}}
    made = {**usual, **body, "id": name, "projectNumber": "1234", "timeCreated": number(world)}
    made["generation"] = made["timeCreated"]
    world["project"]["buckets"][name] = made
    return made


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _object(world: World, call: Call, bucket: str, name: str) -> Reply:
    query = call.query
    _found(world, bucket)
    objects = world["project"]["objects"]
    if call.path.startswith("upload/"):
        meta, content = _parts(call.raw)
        name = meta.get("name") or query.get("name", "")
        _condition(objects.get(f"{bucket}/{name}"), query)
        stored = {
            "name": name,
            "bucket": bucket,
            "generation": number(world),
            "metadata": meta.get("metadata", {}),
            "storageClass": world["project"]["buckets"][bucket]["storageClass"],
            "size": str(len(content)),
            "content": base64.b64encode(content).decode(),
        }
        objects[f"{bucket}/{name}"] = stored
        return _told(stored)
    if not name:
        prefix = f"{bucket}/{query.get('prefix', '')}"
        return {"items": [_told(one) for key, one in sorted(objects.items()) if key.startswith(prefix)]}
    found = objects.get(f"{bucket}/{name}")
    if found is None:
        raise Refused(404, "NOT_FOUND", f"No such object: {bucket}/{name}", "notFound")
    if call.verb == "DELETE":
        _condition(found, query)
        del objects[f"{bucket}/{name}"]
        return {}
    if query.get("alt") == "media":
        return {"media": found["content"], "generation": found["generation"]}
    return _told(found)


def _condition(found: dict[str, Any] | None, query: dict[str, str]) -> None:
    wanted = query.get("ifGenerationMatch")
    if wanted is not None and wanted != (found["generation"] if found else "0"):
        raise Refused(
            412, "FAILED_PRECONDITION", "At least one of the pre-conditions you specified did not hold."
        )


def _told(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stored.items() if name != "content"}


def _parts(raw: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns metadata and content of a multipart upload."""
    edge = raw.split(b"\r\n", 1)[0]
    _, meta, content, _ = raw.split(edge)
    return json.loads(meta.split(b"\r\n\r\n", 1)[1]), content.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")


def of_registry(
    world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> dict[str, Any]:
    """Answers for Artifact Registry."""
    if "/operations/" in path:
        return {"name": path.removeprefix("v1/"), "done": is_done(world, path.removeprefix("v1/"))}
    match = _REPOSITORY.fullmatch(path)
    if match is None:
        raise missing(path)
    folder, part = f"projects/{match['project']}/locations/{match['place']}", world["project"]["repositories"]
    name = f"{folder}/repositories/{match['name'] or query.get('repositoryId', '')}"
    acts = {"GET": "get", "POST": "create", "PATCH": "update", "DELETE": "delete"}
    allowed(world, f"artifactregistry.repositories.{acts[verb]}", name)
    if verb == "POST":
        if name in part:
            raise exists(name)
        part[name] = {**body, "name": name, "createTime": number(world)}
    elif name not in part:
        raise missing(name)
    elif verb == "GET":
        found: dict[str, Any] = part[name]
        return found
    elif verb == "PATCH":
        part[name] |= {field: body[field] for field in query["updateMask"].split(",")}
        return part[name]  # type: ignore[no-any-return]
    elif verb == "DELETE":
        del part[name]
    return begun(world, f"{folder}/operations/{number(world)}")


def of_vertex(
    world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> dict[str, Any]:
    """Answers for Vertex AI: names are numbers of its own, and many may be called alike."""
    if "/operations/" in path:
        return {"name": path.removeprefix("v1/"), "done": is_done(world, path.removeprefix("v1/"))}
    match = _BOARD.fullmatch(path)
    if match is None:
        raise missing(path)
    folder, part = f"projects/{match['project']}/locations/{match['place']}", world["project"]["tensorboards"]
    if match["place"] == "us-central2":
        raise bad("Location us-central2 is not supported.")
    acts = {
        "GET": "get" if match["name"] else "list",
        "POST": "create",
        "DELETE": "delete",
        "PATCH": "update",
    }
    allowed(world, f"aiplatform.tensorboards.{acts[verb]}", folder)
    if verb == "POST":
        name = f"{folder}/tensorboards/{number(world)}"
        part[name] = {**body, "name": name, "createTime": number(world)}
        world["project"].setdefault("boards_made", {})[name] = time.time()
    elif match["name"] is None:
        late = time.time() - world["settings"]["boards_listed_after_s"]
        made = world["project"].get("boards_made", {})
        listed = [key for key in sorted(part) if key.startswith(f"{folder}/") and made.get(key, 0.0) <= late]
        return {"tensorboards": [part[key] for key in listed]}
    elif (name := f"{folder}/tensorboards/{match['name']}") not in part:
        raise missing(name)
    elif verb == "GET":
        found: dict[str, Any] = part[name]
        return found
    elif verb == "PATCH":
        part[name] |= {field: body[field] for field in query["updateMask"].split(",")}
    else:
        del part[name]
    return begun(world, f"{folder}/operations/{number(world)}")


def of_services(
    world: World, verb: str, path: str, query: dict[str, str], body: dict[str, Any]
) -> dict[str, Any]:
    """Answers for Service Usage."""
    if "/operations/" in path or path.startswith("v1/operations/"):
        return {"name": path.removeprefix("v1/"), "done": is_done(world, path.removeprefix("v1/"))}
    match = _SERVICE.fullmatch(path)
    if match is None:
        raise missing(path)
    off = world["settings"]["apis_off"]
    if match["verb"] == "batchEnable":
        allowed(world, "serviceusage.services.enable", match["project"])
        off[:] = [one for one in off if one not in body["serviceIds"]]
        on_at = time.time() + world["settings"]["apis_on_after_s"]
        world["project"]["services"].update(dict.fromkeys(body["serviceIds"], on_at))
        return begun(world, f"operations/acf.{number(world)}")
    allowed(world, "serviceusage.services.list", match["project"])
    names = [one.rpartition("/")[2] for one in query.get("names", "").split(",")]
    states = [{"name": name, "state": "DISABLED" if name in off else "ENABLED"} for name in names]
    return {"services": states}
