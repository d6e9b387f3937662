"""Names of container images: what is written, read as Docker reads it, and tags that are legal by construction."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from runtime.contract.errors import BadInput

LONGEST_TAG = 128
"""Characters of a tag, and 255 of a repository: the distribution specification's limits."""

_LONGEST_REPOSITORY = 255
_HUB, _HUB_API = "docker.io", "registry-1.docker.io"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9-]+(?::\d{1,5})?|\[[0-9a-fA-F:]+\](?::\d{1,5})?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HASH = 12


@dataclass(frozen=True)
class ImageName:
    """An image as somebody names it: a tag, a digest, or both (then the digest counts). `host` may carry a port."""

    host: str
    path: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        """Host and path, as people and Kubernetes write them."""
        return f"{self.host}/{self.path}"

    @property
    def reference(self) -> str:
        """What the registry is asked for: the digest where there is one, else the tag."""
        return self.digest or self.tag or "latest"

    @property
    def endpoint(self) -> str:
        """The host that answers the API: Docker Hub's is another one than its name."""
        return _HUB_API if self.host == _HUB else self.host

    @property
    def loopback(self) -> bool:
        """Whether the registry is on this machine, where it may be spoken to without TLS."""
        name = self.host if self.host.endswith("]") else self.host.rpartition(":")[0] or self.host
        return name in ("localhost", "[::1]") or re.fullmatch(r"127(\.\d{1,3}){3}", name) is not None

    def at(self, digest: str) -> ImageName:
        """The same image by digest."""
        return replace(self, digest=digest)

    def tagged(self, tag: str) -> ImageName:
        """The same repository with a tag."""
        return replace(self, tag=tag, digest=None)

    def pinned(self) -> str:
        """`repository@digest`: what pods are given. There must be a digest."""
        assert self.digest is not None
        return f"{self.repository}@{self.digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{f'@{self.digest}' if self.digest else ''}"


def image_name(text: str) -> ImageName:
    """Reads `[host[:port]/]path[:tag][@digest]`; without a host it is on Docker Hub. Raises BadInput, with the fix."""
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise BadInput(
            f"image {text!r}: {digest or 'nothing'!r} is not a digest", fix="write @sha256: and 64 digits"
        )
    place, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        place, tag = rest, ""
    if colon and "/" not in rest.rpartition(":")[2] and not _TAG.fullmatch(tag):
        raise BadInput(
            f"image {text!r}: {tag!r} is not a tag", fix="a tag has up to 128 of A-Z a-z 0-9 _ . -"
        )
    return _located(text, place, tag or None, digest or None)


def repository_name(text: str, said: str = "--repository", tagged: str = "the tag with --tag") -> ImageName:
    """Reads the name of a repository that is written to: with its registry, and neither tag nor digest.

    Raises BadInput, which names it as it was `said`, and how it is `tagged`. Of a name alone Docker would read a port
    as a tag, and take it for one of Docker Hub's own images, which nobody else may write.
    """
    if text and "/" not in text:
        host, at, _ = text.partition("@")
        first, _, port = host.partition(":")
        if not at and (port.isdecimal() or "." in first or first == "localhost"):
            raise BadInput(
                f"{said} {text!r} is a registry, and names no repository in it",
                fix=f"write {host}/NAME, such as {host}/slicebench",
            )
        raise BadInput(
            f"{said} {text!r} names no registry",
            fix=f"write HOST/PATH: REGION-docker.pkg.dev/PROJECT/REPOSITORY/{first}, or on Docker Hub USER/{first}",
        )
    name = image_name(text)
    if name.tag or name.digest:
        what = f"a {'digest' if name.digest else 'tag'}"
        raise BadInput(f"{said} {text!r} has {what}", fix=f"write {name.repository}, and {tagged}")
    return name


def checked_tag(text: str) -> str:
    """Returns a tag that somebody chose. Raises BadInput when it is none, with one that would be."""
    if _TAG.fullmatch(text):
        return text
    what = (
        f"has {len(text)} characters, at most 128 are allowed" if len(text) > LONGEST_TAG else "is not a tag"
    )
    raise BadInput(
        f"--tag {text!r} {what}", fix=f"for example {_legal(text)[:LONGEST_TAG].strip('-.') or 'mine'!r}"
    )


def made_tag(ref: str, device: str, jax: str, key: str) -> str:
    """Returns `<ref>-<device>-<jax>-<hash>`: legal whatever the ref, and other content has another tag.

    `key` is a hash over all that goes into the image. Of a ref that had to be changed or cut a part of its own hash
    stays in, so that two branches whose legal forms are equal are told apart.
    """
    tail = "-".join(_legal(part) for part in (device, jax, key[:_HASH]) if part)
    legal = _legal(ref).lstrip(".-") or "source"
    room = LONGEST_TAG - len(tail) - 1
    if legal != ref or len(legal) > room:
        mark = hashlib.sha256(ref.encode()).hexdigest()[:6]
        legal = f"{legal[: room - len(mark) - 1].rstrip('.-')}-{mark}"
    return f"{legal}-{tail}"


def _located(text: str, place: str, tag: str | None, digest: str | None) -> ImageName:
    first, slash, path = place.partition("/")
    if not (slash and ("." in first or ":" in first or first == "localhost")):
        first, path = _HUB, place
    if first in ("index.docker.io", _HUB_API):
        first = _HUB
    if first == _HUB and "/" not in path:
        path = f"library/{path}"
    if not _HOST.fullmatch(first):
        raise BadInput(
            f"image {text!r}: {first!r} is not a host", fix="write host/path:tag or host/path@sha256:…"
        )
    if not all(re.fullmatch(_PART, part) for part in path.split("/")):
        fix = f"write it in small letters: {place.lower()}" if path != path.lower() else "write host/path:tag"
        raise BadInput(f"image {text!r}: {path!r} is not a repository", fix=fix)
    if len(path) > _LONGEST_REPOSITORY:
        raise BadInput(f"image {text!r}: its repository has {len(path)} characters, at most 255 are allowed")
    return ImageName(first, path, tag, digest)


def _legal(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-")
