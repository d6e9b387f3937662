"""Benchmarks of several workers by a clock that is known: what they time takes as long as is said here."""

from __future__ import annotations

import orbax.checkpoint as ocp
from orbax.checkpoint._src.multihost import multislice
from orbax.checkpoint.experimental.emergency import checkpoint_manager as emergency
from orbax.checkpoint.experimental.emergency.p2p import checkpoint_manager as p2p

from runtime.benchmarks import emergency as own_emergency
from runtime.benchmarks import multislice_broadcast, peer_to_peer, single_replica
from runtime.benchmarks.benchmark import Context
from tests.runtime.benchmarks.known_clock import (
    RELOAD_S,
    RESTORE_S,
    SAVE_S,
    SEND_S,
    SPANS_S,
    WAIT_S,
    known_times,
)


def _of_manager(cls: type) -> list[tuple[type, str, float]]:
    return [
        (cls, "save", SAVE_S),
        (cls, "wait_until_finished", WAIT_S),
        (cls, "reload", RELOAD_S),
        (cls, "restore", RESTORE_S),
    ]


class SingleReplica(single_replica.SingleReplica):
    def run(self, context: Context) -> None:
        cls = ocp.AsyncCheckpointer
        with known_times(
            (cls, "save", SAVE_S), (cls, "wait_until_finished", WAIT_S), (cls, "restore", RESTORE_S)
        ):
            super().run(context)


class MultisliceBroadcast(multislice_broadcast.MultisliceBroadcast):
    def run(self, context: Context) -> None:
        with known_times(
            (multislice, "process_spans_multiple_replicas", SPANS_S),
            (multislice, "broadcast_one_replica_to_all", SEND_S),
        ):
            super().run(context)


class Emergency(own_emergency.EmergencyCheckpointManager):
    def run(self, context: Context) -> None:
        with known_times(*_of_manager(emergency.CheckpointManager)):
            super().run(context)


class PeerToPeer(peer_to_peer.PeerToPeer):
    def run(self, context: Context) -> None:
        with known_times(*_of_manager(p2p.CheckpointManager)):
            super().run(context)
