"""OCI registries over HTTP: what a tag means, manifests, blobs up and down, without any container engine."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from runtime.contract.errors import BadInput
from tasks.cloud.image_names import ImageName, image_name
from tasks.cloud.registry_errors import Denied, NotThere, RegistryError, Rejected, Unavailable
from tasks.cloud.registry_wire import Answer, Wire, next_url
from tasks.cloud.timing import pauses

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
PLATFORM = ("linux", "amd64")

_ACCEPTED = {"Accept": ", ".join((OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST))}
_PIECE = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """A manifest or index as the registry keeps it: `raw` is what its digest is of."""

    name: ImageName
    digest: str
    media_type: str
    raw: bytes

    @property
    def content(self) -> dict[str, Any]:
        """Its JSON."""
        content: dict[str, Any] = json.loads(self.raw)
        return content


class Registry:
    """All registries, told apart by the images' names. Threads may share one. Raises RegistryError throughout."""

    def __init__(self, wire: Wire | None = None) -> None:
        self._wire = wire or Wire()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def find(self, name: ImageName) -> str | None:
        """Returns the digest that a tag or digest stands for; None when there is none, or not even the repository."""
        url = self._wire.url(name, f"manifests/{name.reference}")
        try:
            answer = self._wire.ask(name, "HEAD", url, headers=_ACCEPTED)
        except NotThere:
            return None
        # A registry need not say it, nor answer to HEAD as to GET: then the manifest itself says.
        return answer.headers.get("docker-content-digest") or self.manifest(name).digest

    def resolve(self, name: ImageName) -> ImageName:
        """Returns an image by digest. Raises BadInput, with the nearest tags, for one that does not exist."""
        digest = self.find(name)
        if digest is None:
            raise BadInput(f"there is no image {name}", fix=self._nearest(name))
        return name.at(digest)

    def manifest(self, name: ImageName) -> Manifest:
        """Returns what a tag or digest stands for, a manifest or an index, checked against its digest."""
        answer = self._wire.ask(
            name, "GET", self._wire.url(name, f"manifests/{name.reference}"), headers=_ACCEPTED
        )
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        promised = name.digest or answer.headers.get("docker-content-digest", digest)
        if promised.startswith("sha256:") and promised != digest:
            raise RegistryError(f"{name.host} answers for {promised} with something else: {digest}")
        try:
            content = json.loads(answer.body)
            told = content.get("mediaType") or answer.headers.get("content-type", "").partition(";")[0]
        except (ValueError, AttributeError) as error:
            raise RegistryError(f"{name}: the registry answers with something that is no manifest") from error
        return Manifest(name.at(digest), digest, told, answer.body)

    def image(self, name: ImageName) -> Manifest:
        """Returns the manifest of an image for linux/amd64. Raises BadInput when there is none for that platform."""
        found = self._existing(name)
        if found.media_type in (OCI_INDEX, DOCKER_LIST):
            found = self.manifest(name.at(_for_platform(found, name)))
        if found.media_type not in (OCI_MANIFEST, DOCKER_MANIFEST):
            raise BadInput(
                f"{name} is of a kind that is not known: {found.media_type}", fix="push it with a newer tool"
            )
        return found

    def config(self, manifest: Manifest) -> dict[str, Any]:
        """Returns an image's configuration: environment, working directory, history."""
        digest = manifest.content["config"]["digest"]
        url = self._wire.url(manifest.name, f"blobs/{digest}")
        body = self._wire.ask(manifest.name, "GET", url).body
        if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            raise RegistryError(f"{manifest.name.host} answers for {digest} with something else")
        content: dict[str, Any] = json.loads(body)
        return content

    def has_blob(self, name: ImageName, digest: str) -> bool:
        """Whether a repository has a blob."""
        try:
            self._wire.ask(name, "HEAD", self._wire.url(name, f"blobs/{digest}"), scope="pull,push")
        except NotThere:
            return False
        return True

    def mount(self, name: ImageName, digest: str, source: ImageName) -> bool:
        """Lets a repository have a blob of another one of the same registry; False when the registry will not."""
        query = urlencode({"mount": digest, "from": source.path})
        url = self._wire.url(name, f"blobs/uploads/?{query}")
        try:
            answer = self._wire.ask(name, "POST", url, scope=f"pull,push {source.path}")
        except (Denied, NotThere, Rejected):
            return False  # not ours to read, or never heard of: then it is uploaded
        if answer.status == 201:
            return True
        self._give_up(name, next_url(answer))
        return False

    def upload(self, name: ImageName, file: Path, digest: str) -> None:
        """Uploads a blob; where a connection broke it goes on from what has arrived."""
        size = file.stat().st_size
        for pause in pauses(self._wire.timing):
            begun = self._wire.ask(name, "POST", self._wire.url(name, "blobs/uploads/"), scope="pull,push")
            try:
                where = self._send(name, next_url(begun), file, size)
                self._complete(name, where, digest)
                return
            except (Unavailable, NotThere, Rejected):
                # Complete, but the reply was lost; or the upload is gone, or mangled: once more from its beginning.
                if self.has_blob(name, digest):
                    return
                if pause is None:
                    raise
                self._wire.pause(pause)

    def download(self, name: ImageName, digest: str, into: Path) -> None:
        """Downloads a blob, checked against its digest; where a connection broke it goes on from what has arrived."""
        into.write_bytes(b"")
        for pause in pauses(self._wire.timing):
            try:
                self._fetch(name, digest, into)
                break
            except Unavailable:
                if pause is None:
                    raise
                self._wire.pause(pause)
        with into.open("rb") as file:
            there = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if there != digest:
            raise RegistryError(f"{name.host} answers for {digest} with something else")

    def put(self, name: ImageName, media_type: str, raw: bytes) -> ImageName:
        """Writes a manifest under the tag of its name, over what is there, and returns it by digest."""
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        url = self._wire.url(name, f"manifests/{name.tag or digest}")
        answer = self._wire.ask(
            name, "PUT", url, scope="pull,push", headers={"Content-Type": media_type}, body=raw
        )
        told = answer.headers.get("docker-content-digest", digest)
        if told != digest:
            raise RegistryError(f"{name.host} says that {name} is {told}, but what was sent is {digest}")
        return name.at(digest)

    def tags(self, name: ImageName) -> list[str]:
        """Returns the tags of a repository, sorted, of very many those of the first page."""
        content = json.loads(self._wire.ask(name, "GET", self._wire.url(name, "tags/list")).body)
        return sorted(map(str, content.get("tags") or ()))

    def _existing(self, name: ImageName) -> Manifest:
        try:
            return self.manifest(name)
        except NotThere:
            raise BadInput(f"there is no image {name}", fix=self._nearest(name)) from None

    def _nearest(self, name: ImageName) -> str:
        try:
            tags = self.tags(name)
        except RegistryError:
            return f"is the repository right? {name.repository} cannot be found, or not by us"
        if name.digest or not tags:
            return f"it has the tags {', '.join(tags[-5:])}" if tags else "the repository has no tags"
        near = difflib.get_close_matches(name.reference, tags, n=3)
        return f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(tags[-5:])}"

    def _send(self, name: ImageName, where: str, file: Path, size: int) -> str:
        """Sends a whole file in one request, or what is missing in another; returns where the upload is completed."""
        offset = 0
        for pause in pauses(self._wire.timing):
            try:
                return next_url(self._patch(name, where, file, offset, size))
            except Unavailable:
                if pause is None:
                    raise
                self._wire.pause(pause)
                where, offset = self._arrived(name, where)
                if offset == size:  # all of it, and only the answer was lost
                    return where
        raise AssertionError("unreachable")

    def _patch(self, name: ImageName, where: str, file: Path, offset: int, size: int) -> Answer:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size - offset)}
        if offset:
            headers["Content-Range"] = f"{offset}-{size - 1}"
        return self._wire.ask(
            name, "PATCH", where, scope="pull,push", headers=headers,
            body=lambda: _pieces(file, offset), again=False,
        )  # fmt: skip

    def _arrived(self, name: ImageName, where: str) -> tuple[str, int]:
        """Returns where an upload goes on, and how many bytes of it have arrived."""
        answer = self._wire.ask(name, "GET", where, scope="pull,push")
        last = answer.headers.get("range", "0-0").partition("-")[2]
        # "0-0" is one byte for some, nothing for others.
        if not last.isdigit() or int(last) == 0:
            raise NotThere(f"{name.host} does not say how much of an upload has arrived")
        return (next_url(answer) if "location" in answer.headers else where), int(last) + 1

    def _complete(self, name: ImageName, where: str, digest: str) -> None:
        joint = "&" if "?" in where else "?"
        self._wire.ask(
            name, "PUT", f"{where}{joint}{urlencode({'digest': digest})}", scope="pull,push",
            headers={"Content-Length": "0"},
        )  # fmt: skip

    def _give_up(self, name: ImageName, where: str) -> None:
        """Takes back an upload that nobody asked for. A registry that keeps it deletes it some day by itself."""
        try:
            self._wire.ask(name, "DELETE", where, scope="pull,push")
        except RegistryError:
            return

    def _fetch(self, name: ImageName, digest: str, into: Path) -> None:
        have = into.stat().st_size
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        url = self._wire.url(name, f"blobs/{digest}")
        with self._wire.sending(name, "GET", url, "pull", headers) as response:
            whole = response.status_code != 206
            with into.open("wb" if whole else "ab") as file:
                for piece in response.iter_raw(_PIECE):
                    file.write(piece)


def pinned(text: str) -> ImageName:
    """Returns an image that somebody names, by digest. Who names a digest is taken at their word: nobody is asked.

    Raises BadInput for a tag that does not exist, RegistryError.
    """
    named = image_name(text)
    if named.digest:
        return named
    with Registry() as registry:
        return registry.resolve(named)


def _pieces(file: Path, offset: int) -> Iterator[bytes]:
    with file.open("rb") as source:
        source.seek(offset)
        while piece := source.read(_PIECE):
            yield piece


def _for_platform(index: Manifest, name: ImageName) -> str:
    there = []
    for entry in index.content.get("manifests", ()):
        platform: Mapping[str, Any] = entry.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == PLATFORM:
            return str(entry["digest"])
        there.append(f"{platform.get('os')}/{platform.get('architecture')}")
    known = ", ".join(sorted({one for one in there if "unknown" not in one and "None" not in one}))
    raise BadInput(f"{name} is not for {'/'.join(PLATFORM)}", fix=f"it is for {known or 'nothing known'}")
