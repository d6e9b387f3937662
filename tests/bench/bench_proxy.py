"""What the encrypting proxy takes: beside itself when it passes through, and beside no proxy at all."""

from __future__ import annotations

import itertools
import math
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from runtime.gcs_proxy.keys import make_key_file
from tests.bench.bars import Bar, bar
from tests.bench.proxies import MIB, Place, lean_store, orbax, proxy
from tests.cloud.store.running import running

LARGE, ROUNDS = 512 * MIB, 7
CPU_ALLOWED_S = 1.7
"""Of a processor, for a GiB that is encrypted or decrypted."""
RATE_MIB, SLOW, SLOW_ROUNDS = 48.0, 128 * MIB, 5
"""A store whose network is slower than all else."""
HUGE, MANY, MANY_AT_ONCE = 10_000 * MIB, 100 * MIB, 64
RSS_ALLOWED_MIB = 128.0
RANGES = 15
ORBAX_ROUNDS = 3

Taken = dict[str, list[float]]


def measure() -> list[Bar]:
    """Returns the bars: raw large objects, a slow store, memory, the first byte of a range."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, _places(Path(name)) as places:
        fast, slow = places
        return [
            *_large(*fast),
            *_slow_store(slow[0], slow[2]),
            *_memory_and_ranges(fast[2]),
            *_orbax(Path(name) / "key.json"),
        ]


@contextmanager
def _places(folder: Path) -> Iterator[tuple[tuple[Place, Place, Place], tuple[Place, Place, Place]]]:
    """Runs a fast and a slow store; of each: it alone, a proxy that passes through before it, one that encrypts."""
    make_key_file(folder / "key.json")
    words = ("--key-map", f"*:file:{folder}/key.json")
    with ExitStack() as stack:

        def of(name: str, rate_mib: float) -> tuple[Place, Place, Place]:
            store = stack.enter_context(lean_store(folder / name, rate_mib))
            passing = stack.enter_context(proxy(store.url, "--no-encryption"))
            return store, passing, stack.enter_context(proxy(store.url, *words))

        yield of("fast", 0.0), of("slow", RATE_MIB)


def _large(store: Place, passing: Place, encrypting: Place) -> list[Bar]:
    """Large objects, as fast as they go."""
    found = {who: _Transfers(LARGE) for who in ("store", "passing", "encrypting")}
    for _ in range(ROUNDS):
        for who, place in (("store", store), ("passing", passing), ("encrypting", encrypting)):
            found[who].take(place)
    allowed = [CPU_ALLOWED_S] * ROUNDS
    ours, theirs = found["encrypting"], found["passing"]
    what = f"objects of {LARGE // MIB} MiB"
    return [
        bar(f"processor for a GiB encrypted, {what}, of what is allowed", ours.up_cpu, allowed, at_most=1.0),
        bar(f"processor for a GiB decrypted, {what}, of what is allowed", ours.down_cpu, allowed, at_most=1.0),
        bar("upload, throughput of passing through / encrypting", theirs.up, ours.up, at_least=0.7, at_most=math.inf),
        bar("read, throughput of passing through / decrypting", theirs.down, ours.down, at_least=0.7, at_most=math.inf),
        bar("processor for a GiB up, encrypting / passing through", ours.up_cpu, theirs.up_cpu, at_most=math.inf),
        bar("processor for a GiB down, decrypting / passing through", ours.down_cpu, theirs.down_cpu, at_most=math.inf),
        bar("upload, encrypting / no proxy", ours.up, found["store"].up, at_most=math.inf),
        bar("read, decrypting / no proxy", ours.down, found["store"].down, at_most=math.inf),
    ]  # fmt: skip


def _slow_store(store: Place, encrypting: Place) -> list[Bar]:
    """Objects of a store that is slower than the proxy."""
    alone, ours = _Transfers(SLOW), _Transfers(SLOW)
    for _ in range(SLOW_ROUNDS):
        alone.take(store)
        ours.take(encrypting)
    what = f"a store of {RATE_MIB:.0f} MiB/s"
    return [
        bar(f"upload to {what}, encrypting / no proxy", ours.up, alone.up, at_most=1.05),
        bar(f"read from {what}, decrypting / no proxy", ours.down, alone.down, at_most=1.05),
    ]


def _memory_and_ranges(encrypting: Place) -> list[Bar]:
    """The most memory that the proxy ever had, and how soon the first byte of a range is there."""
    encrypting.upload("huge", HUGE)
    encrypting.upload("small", MIB)
    middle = HUGE // 2 + 12345
    spans = {"huge": f"{middle}-{middle + MIB - 1}", "small": f"0-{MIB - 1}"}
    found: Taken = {name: [] for name in spans}
    for _ in range(RANGES):
        for name, span in spans.items():
            found[name].append(encrypting.read(name, span)[0])
    encrypting.read("huge")
    one = encrypting.peak_mib
    _at_once(lambda n: encrypting.upload(f"many-{n}", MANY))
    _at_once(lambda n: encrypting.read(f"many-{n}"))
    allowed = [RSS_ALLOWED_MIB]
    what = f"{MANY_AT_ONCE} of {MANY // MIB} MiB at once"
    huge, small = found["huge"], found["small"]
    return [
        bar("first byte of 1 MiB in 10 GB / in an object of 1 MiB", huge, small, at_most=1.2, unit="ms"),
        bar("memory after an object of 10 GB, of what is allowed", [one], allowed, at_most=1.0, unit="MiB"),
        bar(f"memory after {what}, too, of what is allowed", [encrypting.peak_mib], allowed, at_most=1.0, unit="MiB"),
    ]  # fmt: skip


def _orbax(key_file: Path) -> list[Bar]:
    """Orbax saves and restores 1 GiB, each time to a new store, which keeps all in memory."""
    ways = {"none": None, "passing": ("--no-encryption",), "encrypting": ("--key-map", f"*:file:{key_file}")}
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(ORBAX_ROUNDS):
        for way, words in ways.items():
            with running() as store, ExitStack() as stack:
                url = stack.enter_context(proxy(store.url, *words)).url if words else store.url
                found[way].append(orbax(url, store.new_bucket()))

    def took(way: str, what: str) -> list[float]:
        return [each[what] for each in found[way]]

    bars = []
    for what in ("save", "restore"):
        ours = took("encrypting", what)
        bars += [
            bar(f"Orbax's {what} of 1 GiB, throughput of passing through / encrypting",
                took("passing", what), ours, at_least=0.7, at_most=math.inf),
            bar(f"Orbax's {what} of 1 GiB, encrypting / no proxy", ours, took("none", what), at_most=math.inf),
        ]  # fmt: skip
    return bars


class _Transfers:
    """What uploads and reads of objects of one size took: seconds, and the server's processor seconds for a GiB."""

    def __init__(self, size: int) -> None:
        self._size, self._number = size, itertools.count()
        self.up, self.down, self.up_cpu, self.down_cpu = (list[float]() for _ in range(4))

    def take(self, place: Place) -> None:
        name = f"large-{next(self._number)}-{id(self)}"
        gib, before = self._size / 2**30, place.cpu_s
        self.up.append(place.upload(name, self._size))
        between = place.cpu_s
        self.down.append(place.read(name)[1])
        self.up_cpu.append((between - before) / gib)
        self.down_cpu.append((place.cpu_s - between) / gib)
        place.delete(name)


def _at_once(do: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=do, args=(number,)) for number in range(MANY_AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
