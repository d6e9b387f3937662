"""Takes an upload's plaintext from a client, checks it against what the client says of it, and sends it on sealed."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from runtime.gcs_proxy.buffers import LARGE, Budget
from runtime.gcs_proxy.refusal import invalid
from runtime.gcs_proxy.resources import crc32c_text
from runtime.gcs_proxy.seal import Sealer
from runtime.gcs_proxy.upstream import Exchange
from runtime.gcs_proxy.wire import Headers, Wire


@dataclass(frozen=True)
class Checksums:
    """What a client says of its plaintext, in base64."""

    crc32c: str = ""
    md5: str = ""


def refuse_compressed(headers: Headers) -> None:
    """Raises Refused for a body of the JSON API that is compressed on its way: the store could not unpack it sealed."""
    if headers.get("content-encoding").lower() not in ("", "identity"):
        raise invalid(
            "a body that is compressed on its way alone is not sealed here: send it as it is, or as an object that has "
            "contentEncoding"
        )


def told_checksums(headers: Headers, resource: Iterable[tuple[str, object]] = ()) -> Checksums:
    """Returns the checksums of a request's headers and of the object's metadata in it. Raises Refused (400)."""
    told: dict[str, str] = {}
    for value in headers.all("x-goog-hash"):
        for part in value.split(","):
            kind, _, text = part.strip().partition("=")
            _tell(told, kind, text)
    if headers.has("content-md5"):
        _tell(told, "md5", headers.get("content-md5"))
    for name, said in resource:
        if name in ("crc32c", "md5Hash") and said:
            _tell(told, name.removesuffix("Hash"), str(said))
    return Checksums(told.get("crc32c", ""), told.get("md5", ""))


def _tell(told: dict[str, str], kind: str, text: str) -> None:
    size = {"crc32c": 4, "md5": 16}.get(kind)
    if size is None:
        return
    try:
        right = len(base64.b64decode(text, validate=True)) == size
    except (ValueError, binascii.Error):
        right = False
    if not right or told.setdefault(kind, text) != text:
        raise invalid(f"Invalid {kind} of the content: {text[:60]!r}")


class Plaintext:
    """What was seen of a plaintext: its size and checksums."""

    def __init__(self, sealer: Sealer, told: Checksums, *, always_md5: bool = False) -> None:
        """`always_md5`: it is found also where the client does not tell it. It takes longer than sealing does."""
        self.sealer, self.told = sealer, told
        self.md5 = hashlib.md5(usedforsecurity=False) if told.md5 or always_md5 else None

    def hear(self, told: Checksums) -> None:
        """Takes checksums that the client tells later. Raises Refused (400) for an MD5 that comes too late."""
        if told.md5 and self.md5 is None and self.sealer.plain:
            raise invalid("this proxy verifies an MD5 that is told only with a later chunk if it has --md5")
        if told.md5 and self.md5 is None:
            self.md5 = hashlib.md5(usedforsecurity=False)
        self.told = Checksums(told.crc32c or self.told.crc32c, told.md5 or self.told.md5)

    def verify(self) -> None:
        """Raises Refused (400) where the plaintext, all of which was seen, is not what the client said."""
        pairs = [("CRC32C", self.told.crc32c, crc32c_text(self.sealer.crc32c))]
        if self.md5:
            pairs.append(("MD5", self.told.md5, base64.b64encode(self.md5.digest()).decode()))
        for kind, told, found in pairs:
            if told and told != found:
                raise invalid(f'Provided {kind} "{told}" doesn\'t match calculated {kind} "{found}".')


class Source(Protocol):
    """Where plaintext comes from."""

    def fill(self, view: memoryview) -> int:
        """Fills a buffer as far as it goes; returns how many bytes came."""
        ...


def send_sealed(exchange: Exchange, client: Wire, body: Source, plain: Plaintext, budget: Budget) -> bool:
    """Sends a whole plaintext on, sealed; False where the store answered before its end. Raises Refused, Closed.

    The last bytes go on only once all was found as the client said it is: before, the store keeps nothing.
    """
    sealer = plain.sealer
    capacity = sealer.layout.capacity
    with budget.take(client, LARGE, buffers=2) as loan:
        room = loan.buffer[: len(loan.buffer) // capacity * capacity]
        while True:
            filled = body.fill(room)
            whole = filled // capacity * capacity
            if not send_whole(exchange, plain, room[:whole], loan.beside):
                return False
            if filled < len(room):
                rest = bytes(room[whole:filled])
                break
    if plain.md5:
        plain.md5.update(rest)
    last = sealer.last(rest)
    plain.verify()
    return exchange.send(last)


def send_whole(exchange: Exchange, plain: Plaintext, data: memoryview, sealed: memoryview) -> bool:
    """Sends whole segments of plaintext on, sealed in a buffer; False where the store answered instead."""
    capacity = plain.sealer.layout.capacity
    step = len(sealed) // plain.sealer.layout.segment_bytes * capacity
    for begin in range(0, len(data), step):
        piece = data[begin : begin + step]
        if plain.md5:
            plain.md5.update(piece)
        if not exchange.send(sealed[: plain.sealer.whole(piece, sealed)]):
            return False
    return True
